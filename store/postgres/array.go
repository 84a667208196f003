package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// instants is an array of timestamptz as PostgreSQL keeps it: microseconds
// since the year 2000, with numbers that stand for no instant and for both
// infinities. A turn sends thousands of them.
type instants []int64

const (
	never  = math.MinInt64     // before every instant
	always = math.MaxInt64     // after every instant
	none   = math.MinInt64 + 1 // NULL
)

// micros returns the instant as instants keep it; the zero time is none.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return none
	}
	return t.UnixMicro() - epoch2000
}

// Dimensions, Index and IndexType make any connection of pgx take instants;
// those of our own pool have a faster way.
func (a instants) Dimensions() []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(len(a)), LowerBound: 1}}
}

// Index returns one instant.
func (a instants) Index(i int) any {
	switch a[i] {
	case none:
		return pgtype.Timestamptz{}
	case never:
		return pgtype.Timestamptz{Valid: true, InfinityModifier: pgtype.NegativeInfinity}
	case always:
		return pgtype.Timestamptz{Valid: true, InfinityModifier: pgtype.Infinity}
	}
	return pgtype.Timestamptz{Valid: true, Time: time.UnixMicro(a[i] + epoch2000)}
}

// IndexType returns an instant of no time.
func (a instants) IndexType() any { return pgtype.Timestamptz{} }

// quickArrays makes the connection write our biggest parameters without a
// detour through reflection, which costs a tenth of a turn.
func quickArrays(_ context.Context, conn *pgx.Conn) error {
	m := conn.TypeMap()
	for _, oid := range []uint32{pgtype.TimestamptzArrayOID, pgtype.Int8ArrayOID} {
		t, ok := m.TypeForOID(oid)
		if !ok {
			return fmt.Errorf("postgres: pgx does not know type %d", oid)
		}
		m.RegisterType(&pgtype.Type{Name: t.Name, OID: oid, Codec: quickCodec{t.Codec}})
	}
	return nil
}

// quickCodec writes arrays of 8-byte elements.
type quickCodec struct{ pgtype.Codec }

func (c quickCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if format == pgx.BinaryFormatCode {
		switch value.(type) {
		case instants:
			return quickInstants{}
		case []int64:
			return quickNumbers{}
		}
	}
	return c.Codec.PlanEncode(m, oid, format, value)
}

type quickNumbers struct{}

func (quickNumbers) Encode(value any, buf []byte) ([]byte, error) {
	a, ok := value.([]int64)
	if !ok || a == nil {
		return appendArray(buf, pgtype.Int8OID, nil, false), nil
	}
	return appendArray(buf, pgtype.Int8OID, a, false), nil
}

type quickInstants struct{}

func (quickInstants) Encode(value any, buf []byte) ([]byte, error) {
	a, ok := value.(instants)
	if !ok {
		return nil, fmt.Errorf("postgres: %T is no array of instants", value)
	}
	return appendArray(buf, pgtype.TimestamptzOID, a, true), nil
}

// appendArray writes the wire form: dimensions, whether there are NULLs, the
// type, then length and lower bound, then each element with its size.
func appendArray(buf []byte, element uint32, a []int64, nulls bool) []byte {
	dimensions, mayBeNull := uint32(1), uint32(0)
	if len(a) == 0 {
		dimensions = 0
	}
	if nulls {
		mayBeNull = 1
	}
	buf = binary.BigEndian.AppendUint32(buf, dimensions)
	buf = binary.BigEndian.AppendUint32(buf, mayBeNull)
	buf = binary.BigEndian.AppendUint32(buf, element)
	if len(a) == 0 {
		return buf
	}
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(a)))
	buf = binary.BigEndian.AppendUint32(buf, 1)
	for _, v := range a {
		if nulls && v == none {
			buf = binary.BigEndian.AppendUint32(buf, math.MaxUint32) // a length of -1
			continue
		}
		buf = binary.BigEndian.AppendUint32(buf, 8)
		buf = binary.BigEndian.AppendUint64(buf, uint64(v))
	}
	return buf
}
