package supervise

import (
	"encoding/json"
	"path/filepath"
)

// StateFile is the name of the file that seed 003's scripts read.
const StateFile = ".archive_state.json"

// State is what StateFile holds. It is written from the store and never read
// back: deleting or tearing it changes nothing.
type State struct {
	CurrentWorkers       int         `json:"current_workers"`
	InitialWorkers       int         `json:"initial_workers"`
	TempDirs             []string    `json:"temp_dirs_host_paths"`
	VPNRotationsDone     int         `json:"vpn_rotations_done"`
	WorkerReductionsDone int         `json:"worker_reductions_done"`
	RestartsDone         int         `json:"container_restarts_done"`
	ErrorCounts          ErrorCounts `json:"error_counts"`
}

// state is what the file holds of a status; restarts are the job's.
func (st *Status) state(dir string, restarts int) State {
	s := State{
		CurrentWorkers: st.Workers, InitialWorkers: st.InitialWorkers, TempDirs: []string{},
		WorkerReductionsDone: st.Reductions, RestartsDone: restarts, ErrorCounts: st.Errors,
	}
	for n := 1; n <= st.Attempt; n++ {
		s.TempDirs = append(s.TempDirs, attemptDir(dir, n))
	}
	return s
}

// stateFile writes it. Restarts are the attempts that earlier starts spent.
func (l *life) stateFile() error {
	text, err := json.Marshal(l.status.state(l.spec.Dir, l.task.Attempt()-1))
	if err != nil {
		return err
	}
	return saveText(filepath.Join(l.spec.Dir, StateFile), append(text, '\n'), 0o644)
}
