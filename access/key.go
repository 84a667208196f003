package access

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ebbhq/ebb/store"
)

// Of the record that shows whether a key is the one that secrets here were
// sealed with: keyWord, sealed.
const (
	kindKey  = "key"
	keyID    = "seal"
	keyLabel = "key seal"
	keyWord  = "ebb"
)

// KeyFile reads the key that seals secrets, and makes one if there is no such
// file. Only its owner may read it. Of several processes that make one at
// once, all get the same.
func KeyFile(path string) ([]byte, error) {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return readKey(path)
	}
	key := make([]byte, KeySize)
	_, _ = rand.Read(key)
	err := writeKey(path, key)
	if errors.Is(err, fs.ErrExist) {
		return readKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("access: key file: %w", err)
	}
	return key, nil
}

// writeKey makes the file whole or not at all, and never over another.
func writeKey(path string, key []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".key-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // its other name stays
	_, err = f.WriteString(hex.EncodeToString(key) + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Link(f.Name(), path)
}

func readKey(path string) ([]byte, error) {
	stat, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("access: key file: %w", err)
	}
	if others := stat.Mode().Perm() & 0o077; others != 0 {
		return nil, fmt.Errorf("access: key file: %s: others may read it (mode %o); chmod 600 it", path, stat.Mode().Perm())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("access: key file: %w", err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != KeySize {
		return nil, fmt.Errorf("access: key file: %s: must be %d hexadecimal digits", path, 2*KeySize)
	}
	return key, nil
}

// UseKey seals secrets with the key of the file from here on. The first key
// that a database sees is made if there is no such file, and is the database's
// from then on: another one, or a file that has gone, is refused, for what was
// sealed before could not be opened. Call it before others use the keeper.
func (k *Keeper) UseKey(ctx context.Context, path string) error {
	row, err := k.records.Record(ctx, kindKey, keyID)
	if errors.Is(err, store.ErrNotFound) {
		if err = k.firstKey(ctx, path); !errors.Is(err, store.ErrConflict) {
			return err
		}
		row, err = k.records.Record(ctx, kindKey, keyID) // another process was first
	}
	if err != nil {
		return fmt.Errorf("access: key file: %w", err)
	}
	key, err := readKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("access: key file: %s: there is none, and secrets in the database were sealed with one; bring it back from where its backup is", path)
	}
	if err != nil {
		return err
	}
	seal, err := sealer(key)
	if err != nil {
		return err
	}
	if word, err := seal.Open(nil, nil, row.Body, []byte(keyLabel)); err != nil || !bytes.Equal(word, []byte(keyWord)) {
		return fmt.Errorf("access: key file: %s: secrets in the database were sealed with another key; every process of a database needs the same file", path)
	}
	k.seal = seal
	return nil
}

// firstKey makes the file's key the database's. ErrConflict if it has one.
func (k *Keeper) firstKey(ctx context.Context, path string) error {
	key, err := KeyFile(path)
	if err != nil {
		return err
	}
	seal, err := sealer(key)
	if err != nil {
		return err
	}
	now := k.clock.Now()
	_, err = k.records.Write(ctx, now, store.Write{
		Puts:  []store.Record{{Kind: kindKey, ID: keyID, Body: seal.Seal(nil, nil, []byte(keyWord), []byte(keyLabel))}},
		Audit: []store.AuditRow{{At: now, Actor: actor(ctx), Act: "key.first", What: path}},
	})
	if err != nil {
		return fmt.Errorf("access: key file: %w", err)
	}
	k.seal = seal
	return nil
}
