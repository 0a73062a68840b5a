package control

import (
	"testing"

	"sluice/internal/config"
	"sluice/internal/umem"
)

func parse(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func memoryFor(t *testing.T, c *config.Config) *umem.Memory {
	t.Helper()
	m, err := umem.Map(c.Memory.Buffers, c.Memory.BufferSize)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}
