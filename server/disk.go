package server

import "context"

// tellRoom logs once that there is little room on the database's disk, and once
// that there is more again. A disk that does not tell is no matter.
func (s *Server) tellRoom(context.Context) error {
	d, err := s.disk()
	if err != nil || d.Free < d.Least() == s.low {
		return nil
	}
	s.low = !s.low
	if s.low {
		s.options.Log.Warn().Int64("free_bytes", d.Free).Int64("least_bytes", d.Least()).
			Msg("there is little room on the disk of the database: make some; once it is full, writes are refused")
	} else {
		s.options.Log.Info().Int64("free_bytes", d.Free).Msg("there is room on the disk of the database again")
	}
	return nil
}
