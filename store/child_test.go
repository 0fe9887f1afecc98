package store

func child(mode, dir string) int { return 2 }
