package document

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	gcaws "gocloud.dev/aws"
	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/s3blob"
	"gocloud.dev/gcerrors"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/internal/oneshot"
)

// Object is one object of a bucket.
type Object struct {
	Bucket string `json:"bucket"` // a URL: file:///dir, s3://name?region=…
	Key    string `json:"key"`
}

// String is its URL, for people.
func (o Object) String() string {
	u, err := url.Parse(o.Bucket)
	if err != nil {
		return o.Bucket + "/" + o.Key
	}
	if u.Path = path.Join("/", u.Path, o.Key); u.Scheme == "file" {
		u.RawQuery = ""
	}
	return u.String()
}

// Reasons of failures of an object store.
const (
	ReasonMissing = "missing_object"
	ReasonDenied  = "access_denied" // the object store's key is wrong or may not
	ReasonBucket  = "bucket"        // the bucket's URL cannot be used
)

// buckets keeps buckets open.
type buckets struct {
	open func(ctx context.Context, url string) (*blob.Bucket, error)
	mu   sync.Mutex
	all  map[string]*blob.Bucket
}

func (b *buckets) bucket(ctx context.Context, at string) (*blob.Bucket, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if found := b.all[at]; found != nil {
		return found, nil
	}
	// A bucket outlives the start that opens it.
	opened, err := b.open(context.WithoutCancel(ctx), at)
	if err != nil {
		return nil, err
	}
	if b.all == nil {
		b.all = map[string]*blob.Bucket{}
	}
	b.all[at] = opened
	return opened, nil
}

func (b *buckets) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var err error
	for _, one := range b.all {
		err = errors.Join(err, one.Close())
	}
	b.all = nil
	return err
}

// OpenBucket opens file:///DIR or s3://NAME?region=…&endpoint=…&use_path_style=…;
// the parameters are those of gocloud.dev. The S3 client makes each call once:
// Ebb retries.
func OpenBucket(ctx context.Context, at string) (*blob.Bucket, error) {
	u, err := url.Parse(at)
	if err != nil {
		return nil, errors.New("bucket: not a URL")
	}
	switch u.Scheme {
	case "file":
		return openFile(u)
	case "s3":
		return openS3(ctx, u)
	}
	return nil, fmt.Errorf("bucket: %q: want file:///DIR or s3://NAME", u.Redacted())
}

func openFile(u *url.URL) (*blob.Bucket, error) {
	for name := range u.Query() {
		if name != "create_dir" {
			return nil, fmt.Errorf("bucket: %s: parameter %q: file:// knows create_dir alone", u.Redacted(), name)
		}
	}
	return fileblob.OpenBucket(filepath.FromSlash(u.Path), &fileblob.Options{
		CreateDir: u.Query().Get("create_dir") != "",
		NoTempDir: true, // a rename never crosses file systems
		Metadata:  fileblob.MetadataDontWrite,
	})
}

func openS3(ctx context.Context, u *url.URL) (*blob.Bucket, error) {
	q := u.Query()
	flag := func(name string) (bool, error) {
		text := q.Get(name)
		q.Del(name)
		if text == "" {
			return false, nil
		}
		v, err := strconv.ParseBool(text)
		if err != nil {
			return false, fmt.Errorf("bucket: s3://%s: %s: %q: must be true or false", u.Host, name, text)
		}
		return v, nil
	}
	pathStyle, err := flag("use_path_style")
	if err != nil {
		return nil, err
	}
	plain, err := flag("disable_https")
	if err != nil {
		return nil, err
	}
	config, err := gcaws.V2ConfigFromURLParams(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("bucket: s3://%s: %w", u.Host, err)
	}
	config.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
	config.HTTPClient = sendOnce(config.HTTPClient)
	client := s3.NewFromConfig(config, func(o *s3.Options) {
		o.UsePathStyle = pathStyle
		o.EndpointOptions.DisableHTTPS = plain
	})
	return s3blob.OpenBucket(ctx, client, u.Host, &s3blob.Options{RequestChecksumCalculation: config.RequestChecksumCalculation})
}

// sendOnce returns the SDK's client with a transport that sends each request
// once: as with the retries of the SDK itself, the job's policy decides
// whether a call is made again.
func sendOnce(c aws.HTTPClient) aws.HTTPClient {
	if b, ok := c.(*awshttp.BuildableClient); ok {
		c = b.Freeze()
	}
	client, ok := c.(*http.Client)
	if !ok {
		return c
	}
	own := *client
	own.Transport = oneshot.New(own.Transport)
	return &own
}

// read returns an object, at most so many bytes of it.
func (s *Service) read(ctx context.Context, o Object, most int64) ([]byte, error) {
	b, err := s.buckets.bucket(ctx, o.Bucket)
	if err != nil {
		return nil, failure.New(failure.InvalidInput, ReasonBucket, err)
	}
	r, err := b.NewReader(ctx, o.Key, nil)
	if err != nil {
		return nil, objectError(ctx, o, err)
	}
	defer func() { _ = r.Close() }() // it was read, or failed before
	if r.Size() > most {
		return nil, failure.New(failure.TooLarge, "input_too_large", fmt.Errorf("%s: %d bytes; the limit is %d", o, r.Size(), most))
	}
	body, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, objectError(ctx, o, err)
	}
	if int64(len(body)) > most {
		return nil, failure.New(failure.TooLarge, "input_too_large", fmt.Errorf("%s: more than %d bytes", o, most))
	}
	return body, nil
}

// write puts an object, unless it is there already as it should be and the
// caller thinks it may be.
func (s *Service) write(ctx context.Context, o Object, body []byte, perhaps bool) error {
	b, err := s.buckets.bucket(ctx, o.Bucket)
	if err != nil {
		return failure.New(failure.InvalidInput, ReasonBucket, err)
	}
	if perhaps {
		if old, err := b.ReadAll(ctx, o.Key); err == nil && bytes.Equal(old, body) {
			return nil
		}
	}
	if err := b.WriteAll(ctx, o.Key, body, &blob.WriterOptions{ContentType: "application/json"}); err != nil {
		return objectError(ctx, o, err)
	}
	return nil
}

// objectError classifies what an object store says. It is never the
// provider's fault: its breaker and pause are not moved by it.
func objectError(ctx context.Context, o Object, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return ourFault(fmt.Errorf("object: %s: %w", o, cause))
	}
	err = fmt.Errorf("object: %s: %w", o, err)
	f := failure.Classify(err)
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		return failure.New(failure.InvalidInput, ReasonMissing, err)
	case gcerrors.PermissionDenied:
		return failure.New(failure.Rejected, ReasonDenied, err)
	case gcerrors.FailedPrecondition, gcerrors.Internal, gcerrors.Unknown:
	}
	if f.Class == failure.Config { // seed 001 gives up on it; a class rule can park
		return failure.New(failure.Rejected, ReasonDenied, err)
	}
	return ourFault(err)
}

// ourFault keeps an error's class and blames nobody beyond us: the object
// store and the database are not the job's target.
func ourFault(err error) error {
	f := failure.Classify(err)
	if f.Order != failure.OrderNone || f.Class == failure.Interrupted {
		return err
	}
	f.Blame, f.RetryAfter = failure.BlameUs, 0
	return &failure.Error{Failure: f}
}

// parsePattern reads the URL of objects, whose key may have * ? and **. Of a
// file, the directory before the first of them is the bucket.
func parsePattern(at string) (Object, error) {
	u, query, err := parseURL(at)
	if err != nil {
		return Object{}, err
	}
	key := strings.TrimPrefix(u.Path, "/")
	if key == "" || strings.HasSuffix(key, "/") {
		return Object{}, invalidf("document: %s: names no object; s3://BUCKET/KEY or file:///DIR/FILE", at)
	}
	if u.Scheme == "s3" {
		return Object{Bucket: "s3://" + u.Host + query, Key: key}, nil
	}
	dir, file := path.Split(u.Path)
	for isPattern(dir) {
		dir = path.Dir(strings.TrimSuffix(dir, "/"))
	}
	if dir = strings.TrimSuffix(dir, "/"); !isPattern(path.Dir(u.Path)) {
		return Object{Bucket: fileBucket(dir), Key: file}, nil
	}
	return Object{Bucket: fileBucket(dir), Key: strings.TrimPrefix(strings.TrimPrefix(u.Path, dir), "/")}, nil
}

func fileBucket(dir string) string {
	if dir == "" {
		dir = "/"
	}
	return (&url.URL{Scheme: "file", Path: dir}).String()
}

// parseURL splits at without taking ? in a file's pattern for a query.
func parseURL(at string) (*url.URL, string, error) {
	scheme, rest, ok := strings.Cut(at, "://")
	switch {
	case ok && scheme == "file":
		if !strings.HasPrefix(rest, "/") {
			return nil, "", invalidf("document: %s: want an absolute path: file:///DIR/FILE", at)
		}
		rest = strings.TrimSuffix(rest, "?create_dir=true")
		if plain, err := url.PathUnescape(rest); err == nil {
			rest = plain
		}
		clean := path.Clean(rest)
		if strings.HasSuffix(rest, "/") && clean != "/" {
			clean += "/"
		}
		return &url.URL{Scheme: "file", Path: clean}, "", nil
	case ok && scheme == "s3":
		u, err := url.Parse(at)
		if err != nil || u.Host == "" || u.User != nil {
			return nil, "", invalidf("document: an s3 URL is s3://BUCKET/KEY?region=…, without a password")
		}
		query := ""
		if u.RawQuery != "" {
			query = "?" + u.RawQuery
		}
		return u, query, nil
	}
	return nil, "", invalidf("document: %q: want s3://… or file:///…", at)
}

// ParseOutput reads where results go: a bucket and a prefix of the keys.
func ParseOutput(at string) (Object, error) {
	u, query, err := parseURL(at)
	if err != nil {
		return Object{}, err
	}
	if u.Scheme == "file" {
		return Object{Bucket: fileBucket(strings.TrimSuffix(u.Path, "/")) + "?create_dir=true"}, nil
	}
	prefix := strings.TrimPrefix(u.Path, "/")
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	return Object{Bucket: "s3://" + u.Host + query, Key: prefix}, nil
}
