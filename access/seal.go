package access

import (
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
)

// KeySize is the length of a key that seals secrets, in bytes.
const KeySize = 32

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

// ErrNoKey is returned where a secret is to be sealed or opened and no key was
// given.
var ErrNoKey = errors.New("access: no key file was given to seal secrets with; name one with --key-file (EBB_KEY_FILE, key_file), the same for every process of this database")

// Seal encrypts a secret for the store (AES-256-GCM). label says what it is
// of, such as "endpoint ep_1": a sealed secret opens under its label alone.
func (k *Keeper) Seal(secret []byte, label string) ([]byte, error) {
	if k.seal == nil {
		return nil, ErrNoKey
	}
	return k.seal.Seal(nil, nil, secret, []byte(label)), nil
}

// Open decrypts what Seal made under the same label.
func (k *Keeper) Open(sealed []byte, label string) ([]byte, error) {
	if k.seal == nil {
		return nil, ErrNoKey
	}
	secret, err := k.seal.Open(nil, nil, sealed, []byte(label))
	if err != nil {
		return nil, fmt.Errorf("access: open %s: it was sealed with another key, under another label, or changed", label)
	}
	return secret, nil
}
