package document

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/ebbhq/ebb/work/document/model"
)

// Money is an amount in billionths of a dollar, so that sums are exact. In JSON
// it is dollars.
type Money int64

const dollar = 1e9

// MarshalJSON writes dollars.
func (m Money) MarshalJSON() ([]byte, error) {
	return []byte(strconv.FormatFloat(float64(m)/dollar, 'f', -1, 64)), nil
}

// UnmarshalJSON reads dollars.
func (m *Money) UnmarshalJSON(b []byte) error {
	var f float64
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	*m = Money(math.Round(f * dollar))
	return nil
}

// Dollars is the amount as a number for people and metrics.
func (m Money) Dollars() float64 { return float64(m) / dollar }

// cost is what the tokens cost at the provider's prices.
func (p *Provider) cost(name string, u model.Usage) Money {
	price, ok := p.Prices[name]
	if !ok {
		price = p.Prices["*"]
	}
	const million = 1e6
	return Money(math.Round((float64(u.Input)*price.Input + float64(u.Output)*price.Output) / million * dollar))
}
