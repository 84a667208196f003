package access

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// KeySize is the length of a key that seals secrets, in bytes.
const KeySize = 32

// KeyFile reads the key that seals secrets, and makes one if there is no such
// file. Only its owner may read it.
func KeyFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return readKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("access: key file: %w", err)
	}
	key := make([]byte, KeySize)
	_, _ = rand.Read(key)
	_, err = f.WriteString(hex.EncodeToString(key) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, fmt.Errorf("access: key file: %w", errors.Join(err, os.Remove(path)))
	}
	return key, nil
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

func sealer(key []byte) (cipher.AEAD, error) {
	if len(key) != KeySize {
		return nil, fmt.Errorf("access: the key has %d bytes, must have %d", len(key), KeySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("access: key: %w", err)
	}
	return cipher.NewGCMWithRandomNonce(block)
}

var errNoKey = errors.New("access: no key was given to seal secrets with")

// Seal encrypts a secret for the store (AES-256-GCM). label says what it is
// of, such as "endpoint ep_1": a sealed secret opens under its label alone.
func (k *Keeper) Seal(secret []byte, label string) ([]byte, error) {
	if k.seal == nil {
		return nil, errNoKey
	}
	return k.seal.Seal(nil, nil, secret, []byte(label)), nil
}

// Open decrypts what Seal made under the same label.
func (k *Keeper) Open(sealed []byte, label string) ([]byte, error) {
	if k.seal == nil {
		return nil, errNoKey
	}
	secret, err := k.seal.Open(nil, nil, sealed, []byte(label))
	if err != nil {
		return nil, fmt.Errorf("access: open %s: it was sealed with another key, under another label, or changed", label)
	}
	return secret, nil
}
