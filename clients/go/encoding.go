package snowlease

import (
	"encoding/base64"
	"encoding/binary"
	"strings"
)

// Encoding is a text form of IDs. The texts of Base62Sort and Base64Sort sort like numbers.
type Encoding string

// The text forms.
const (
	Decimal     Encoding = "decimal"
	Hex         Encoding = "hex"
	Base36      Encoding = "base36"
	Base62      Encoding = "base62"
	Base64URL   Encoding = "base64url"
	Crockford32 Encoding = "crockford32"
	Base62Sort  Encoding = "base62sort"
	Base64Sort  Encoding = "base64sort"
)

const (
	upperCase = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	lowerCase = "abcdefghijklmnopqrstuvwxyz"
	// The longest text of an ID.
	longestText = 20
)

// The digits, in ascending order. Base64URL is no number in a base, but the ID's 8 bytes.
var alphabets = map[Encoding]string{
	Decimal:     "0123456789",
	Hex:         "0123456789abcdef",
	Base36:      "0123456789" + lowerCase,
	Base62:      "0123456789" + lowerCase + upperCase,
	Base64URL:   "",
	Crockford32: "0123456789ABCDEFGHJKMNPQRSTVWXYZ",
	Base62Sort:  "0123456789" + upperCase + lowerCase,
	Base64Sort:  "-0123456789" + upperCase + "_" + lowerCase,
}

// Encode writes an ID, 0 to 2^63-1, without leading zeros, but in the forms that always have all digits. Error: CONFIG_INVALID.
func (e Encoding) Encode(id int64) (string, error) {
	if e == Base62Sort || e == Base64Sort {
		return e.EncodeFixed(id, mostBits-1)
	}
	return e.encode(id, 0)
}

// EncodeFixed writes it as wide as the largest ID of so many bits, 1 to 63. Error: CONFIG_INVALID.
func (e Encoding) EncodeFixed(id int64, bits int) (string, error) {
	if err := within("bits", int64(bits), 1, mostBits-1); err != nil {
		return "", err
	}
	return e.encode(id, bits)
}

// Decode reads what Encode writes, or EncodeFixed with so many bits, and no other text: no signs, spaces, other case or look-alikes. Error:
// CONFIG_INVALID.
func (e Encoding) Decode(text string, bits int) (int64, error) {
	if _, err := e.EncodeFixed(0, bits); err != nil {
		return 0, err
	}
	var id int64 = -1
	// The length first: a hostile megabyte costs no more than a typing error.
	if text != "" && len(text) <= longestText {
		id = e.number(text)
	}
	if id >= 0 {
		short, _ := e.Encode(id)
		fixed, _ := e.EncodeFixed(id, bits)
		if text == short || text == fixed {
			return id, nil
		}
	}
	return 0, expected(string(e)+" text", "to be what Encode writes", text)
}

func (e Encoding) number(text string) int64 {
	if e == Base64URL {
		bytes, err := base64.URLEncoding.DecodeString(text)
		if err != nil || len(bytes) != 8 {
			return -1
		}
		return int64(binary.BigEndian.Uint64(bytes))
	}
	digits := alphabets[e]
	base := int64(len(digits))
	id := int64(0)
	for at := 0; at < len(text); at++ {
		digit := int64(strings.IndexByte(digits, text[at]))
		// Compared before it is multiplied, so that it does not overflow.
		if digit < 0 || id > (mask(mostBits-1)-digit)/base {
			return -1
		}
		id = id*base + digit
	}
	return id
}

// encode writes an ID as wide as the largest one of so many bits; 0: as short as it is.
func (e Encoding) encode(id int64, bits int) (string, error) {
	if err := within("id", id, 0, mask(mostBits-1)); err != nil {
		return "", err
	}
	digits, isKnown := alphabets[e]
	switch {
	case !isKnown:
		return "", expected("encoding", "to be decimal, hex, base36, base62, base64url, crockford32, base62sort or base64sort", string(e))
	case e == Base64URL:
		return base64.URLEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, uint64(id))), nil
	}
	text := digitsOf(id, digits)
	width := 0
	if bits > 0 {
		width = len(digitsOf(mask(bits), digits))
	}
	return strings.Repeat(digits[:1], max(0, width-len(text))) + text, nil
}

func digitsOf(id int64, digits string) string {
	var text [mostBits]byte
	at, base := len(text), int64(len(digits))
	for {
		at--
		text[at] = digits[id%base]
		if id /= base; id == 0 {
			return string(text[at:])
		}
	}
}
