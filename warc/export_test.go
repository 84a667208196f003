package warc

// SpillAt makes the index sort on disk from that many bytes on.
func (w *IndexWriter) SpillAt(n int) { w.max = n }
