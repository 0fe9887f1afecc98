package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	libp2phost "github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/client"

	"github.com/weftmesh/weft/test/bench/raw"
)

// serveRaw answers on one transport, or behind a relay. The answers are the
// beginning of a file, which is read once.
func serveRaw(ctx context.Context, file, key, listen, relay string, say func(string) error) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	seed, err := hex.DecodeString(key)
	if err != nil {
		return fmt.Errorf("key: %w", err)
	}
	host, err := raw.NewHost(seed, listen)
	if err != nil {
		return err
	}
	defer host.Close()
	host.SetStreamHandler(raw.Protocol, func(s network.Stream) {
		defer s.Reset()
		r := bufio.NewReaderSize(s, 64<<10)
		for {
			if err := raw.Answer(r, s, content); err != nil {
				return
			}
		}
	})
	var addrs []string
	for _, a := range host.Addrs() {
		addrs = append(addrs, a.String()+"/p2p/"+host.ID().String())
	}
	if relay != "" {
		if addrs, err = reserve(ctx, host, relay); err != nil {
			return err
		}
	}
	if err := say(strings.Join(addrs, " ")); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// reserve takes a slot at the relay and returns the address through it.
func reserve(ctx context.Context, host libp2phost.Host, relay string) ([]string, error) {
	info, err := peer.AddrInfoFromString(relay)
	if err != nil {
		return nil, err
	}
	if err := host.Connect(ctx, *info); err != nil {
		return nil, fmt.Errorf("connect to the relay: %w", err)
	}
	if _, err := client.Reserve(ctx, host, *info); err != nil {
		return nil, fmt.Errorf("reserve a slot: %w", err)
	}
	return []string{relay + "/p2p-circuit/p2p/" + host.ID().String()}, nil
}
