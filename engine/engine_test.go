package engine_test

import (
	"testing"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/engine/enginetest"
)

func TestOps(t *testing.T) {
	enginetest.Run(t, func(_ *testing.T, local *engine.Engine) engine.Ops { return local })
}
