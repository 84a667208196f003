package document

import (
	"math"

	"github.com/ebbhq/ebb/work/document/model"
)

// money is an amount in billionths of a dollar, so that sums are exact.
type money int64

const dollar = 1e9

func (m money) dollars() float64 { return float64(m) / dollar }

// cost is what the tokens cost at the provider's prices.
func (p *Provider) cost(name string, u model.Usage) money {
	price, ok := p.Prices[name]
	if !ok {
		price = p.Prices["*"]
	}
	const million = 1e6
	return money(math.Round((float64(u.Input)*price.Input + float64(u.Output)*price.Output) / million * dollar))
}
