package failure

import (
	"errors"
	"strings"
)

// fromService recognises SDK errors by the methods they share: an error code
// (object stores), an HTTP status (LLM and cloud clients).
func fromService(err error) (Failure, bool) {
	if coded, ok := errors.AsType[interface {
		error
		ErrorCode() string
	}](err); ok {
		if f, ok := byCode(coded.ErrorCode()); ok {
			f.Status = statusOf(err)
			return f, true
		}
	}
	if status := statusOf(err); status >= 300 {
		return Status(status), true
	}
	return Failure{}, false
}

func statusOf(err error) int {
	if long, ok := errors.AsType[interface {
		error
		HTTPStatusCode() int
	}](err); ok {
		return long.HTTPStatusCode()
	}
	if short, ok := errors.AsType[interface {
		error
		StatusCode() int
	}](err); ok {
		return short.StatusCode()
	}
	return 0
}

// byCode knows the codes of S3 and its kin.
func byCode(code string) (Failure, bool) {
	var class Class
	switch code {
	case "SlowDown", "Throttling", "ThrottlingException", "ThrottledException", "TooManyRequests",
		"TooManyRequestsException", "RequestLimitExceeded", "RequestThrottled",
		"ProvisionedThroughputExceededException", "BandwidthLimitExceeded":
		class = Throttled
	case "InternalError", "InternalFailure", "ServiceUnavailable", "ServerBusy":
		class = Server
	case "RequestTimeout", "RequestTimeoutException": // S3 says so with a status of 400
		class = Timeout
	case "OperationAborted", "NotReady":
		class = Unavailable
	case "NoSuchKey", "NoSuchVersion", "NotFound", "InvalidObjectState":
		class = InvalidInput
	case "NoSuchBucket", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken",
		"InvalidToken", "AllAccessDisabled", "PermanentRedirect", "AuthorizationHeaderMalformed":
		class = Config
	case "EntityTooLarge":
		class = TooLarge
	default:
		return Failure{}, false
	}
	f := Of(class)
	f.Reason = code
	return f, true
}

// fromSQL recognises database errors by SQLSTATE, and SQLite's by its result
// code and the name it prints.
func fromSQL(err error) (Failure, bool) {
	if state, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		if class, ok := byState(state.SQLState()); ok {
			f := Of(class)
			f.Reason = "sqlstate_" + strings.ToLower(state.SQLState())
			return f, true
		}
		return Failure{}, false
	}
	if lite, ok := errors.AsType[interface {
		error
		Code() int
	}](err); ok && strings.Contains(lite.Error(), "SQLITE_") {
		return byLiteCode(lite.Code())
	}
	return Failure{}, false
}

func byState(state string) (Class, bool) {
	if len(state) != 5 {
		return Unknown, false
	}
	switch state {
	case "57014": // query_canceled: statement_timeout or a cancel
		return Timeout, true
	case "57P01", "57P02", "57P03", // shutdown, crash shutdown, cannot connect now
		"40001", "40P01", // serialization failure, deadlock
		"55P03", "55006": // lock not available, object in use
		return Unavailable, true
	case "3D000", "3F000": // no such database, schema
		return Config, true
	}
	switch state[:2] {
	case "08", "53", "58": // connection, insufficient resources, system error
		return Unavailable, true
	case "22", "23": // data exception, integrity violation
		return InvalidInput, true
	case "28", "42": // authorization, syntax or access rule
		return Config, true
	}
	return Unknown, false
}

// byLiteCode reads SQLite's primary result code, the low byte.
func byLiteCode(code int) (Failure, bool) {
	switch code & 0xff {
	case 5, 6: // SQLITE_BUSY, SQLITE_LOCKED
		return Of(Unavailable), true
	case 8, 10, 11, 14: // READONLY, IOERR, CORRUPT, CANTOPEN
		return Of(LocalIO), true
	case 13: // FULL
		return Of(DiskFull), true
	case 19, 20: // CONSTRAINT, MISMATCH
		return Of(InvalidInput), true
	}
	return Failure{}, false
}
