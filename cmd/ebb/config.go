package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
)

// defaultConfig is read where it exists and no other is named.
const defaultConfig = "ebb.yaml"

// settings is the configuration file.
type settings struct {
	// Policies is the policy file, relative to the configuration file.
	Policies string `yaml:"policies"`
	// DB is the store: sqlite:PATH, relative to the configuration file, or
	// postgres://…
	DB string `yaml:"db"`
	// KeyFile has the key that encrypts secrets, relative to the configuration
	// file.
	KeyFile string `yaml:"key_file"`
}

// settings reads the configuration file; a missing default one is empty.
func (a *app) settings() (settings, error) {
	path, named := a.config, a.config != ""
	if env, ok := a.lookup("EBB_CONFIG"); ok && !named && env != "" {
		path, named = env, true
	}
	if !named {
		path = defaultConfig
	}
	src, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return settings{}, nil
	}
	if err != nil {
		return settings{}, usage(fmt.Errorf("config: %w", err), "ebb --config FILE …")
	}
	var s settings
	if err := yaml.UnmarshalWithOptions(src, &s, yaml.Strict()); err != nil {
		return settings{}, usage(fmt.Errorf("config: %s: %w", path, err), "the keys are: policies, db, key_file")
	}
	if s.Policies != "" && !filepath.IsAbs(s.Policies) {
		s.Policies = filepath.Join(filepath.Dir(path), s.Policies)
	}
	if s.KeyFile != "" && !filepath.IsAbs(s.KeyFile) {
		s.KeyFile = filepath.Join(filepath.Dir(path), s.KeyFile)
	}
	if at, ok := strings.CutPrefix(s.DB, "sqlite:"); ok && at != "" && !filepath.IsAbs(at) {
		s.DB = "sqlite:" + filepath.Join(filepath.Dir(path), at)
	}
	return s, nil
}
