package snowlease

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
)

// Encoding is a text form of IDs. The empty one is Decimal.
type Encoding string

// The text forms. Base62Sort and Base64Sort are always written with all digits, and sort like the numbers.
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
	digits36  = "0123456789abcdefghijklmnopqrstuvwxyz"
	upperCase = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	lowerCase = "abcdefghijklmnopqrstuvwxyz"
)

// Numbers in the base of their alphabet, the digits in ascending order. Base64URL is no such number, but the ID's 8 bytes.
var alphabets = map[Encoding]string{
	"":          "0123456789",
	Decimal:     "0123456789",
	Hex:         "0123456789abcdef",
	Base36:      digits36,
	Base62:      digits36 + upperCase,
	Crockford32: "0123456789ABCDEFGHJKMNPQRSTVWXYZ",
	Base62Sort:  "0123456789" + upperCase + lowerCase,
	Base64Sort:  "-0123456789" + upperCase + "_" + lowerCase,
}

// Encode writes an ID, 0 to 2^63-1. Errors: CONFIG_INVALID.
func (e Encoding) Encode(id int64) (string, error) {
	if e == Base62Sort || e == Base64Sort {
		return e.EncodeFixed(id, 63)
	}
	return e.encode(id, 0)
}

// EncodeFixed writes an ID of so many bits (Layout.TotalBits) with leading zeros, as wide as the largest one. Errors: CONFIG_INVALID.
func (e Encoding) EncodeFixed(id int64, bits int) (string, error) {
	if err := checkBits(id, bits); err != nil {
		return "", err
	}
	return e.encode(id, e.width(bits))
}

func (e Encoding) encode(id int64, width int) (string, error) {
	if err := checkBits(id, 63); err != nil {
		return "", err
	}
	if e == Base64URL {
		return base64.URLEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, uint64(id))), nil
	}
	digits, err := e.digits()
	if err != nil {
		return "", err
	}
	var text [64]byte
	at, base := len(text), int64(len(digits))
	for id > 0 || at == len(text) || len(text)-at < width {
		at--
		text[at] = digits[id%base]
		id /= base
	}
	return string(text[at:]), nil
}

// Decode reads what Encode and EncodeFixed write for IDs of so many bits (63, or Layout.TotalBits), and no other text: no signs, spaces, other
// case or look-alikes. Errors: CONFIG_INVALID.
func (e Encoding) Decode(text string, bits int) (int64, error) {
	if err := checkBits(0, bits); err != nil {
		return 0, err
	}
	if e == Base64URL {
		return decodeBase64URL(text, bits)
	}
	digits, err := e.digits()
	if err != nil {
		return 0, err
	}
	name, fixed := string(e)+" text", e.width(bits)
	isWide := e == Base62Sort || e == Base64Sort
	longest := fixed
	if isWide {
		longest = e.width(63)
	}
	switch {
	case len(text) < 1 || len(text) > longest:
		return 0, expected(name, fmt.Sprintf("to be 1 to %d characters", longest), text)
	case isWide && len(text) != longest && len(text) != fixed:
		return 0, expected(name, fmt.Sprintf("to have %d or %d characters", fixed, longest), text)
	case !isWide && text[0] == digits[0] && len(text) > 1 && len(text) < fixed:
		return 0, expected(name, fmt.Sprintf("to have no leading zeros unless they fill it up to %d characters", fixed), text)
	}
	var id uint64
	base, largest := uint64(len(digits)), uint64(1)<<bits-1
	for at := 0; at < len(text); at++ {
		digit := strings.IndexByte(digits, text[at])
		if digit < 0 {
			return 0, expected(name, "to have no characters but `"+digits+"`", text)
		}
		if uint64(digit) > largest || id > (largest-uint64(digit))/base {
			return 0, expected(name, fmt.Sprintf("to be at most 2^%d-1", bits), text)
		}
		id = id*base + uint64(digit)
	}
	return int64(id), nil
}

func decodeBase64URL(text string, bits int) (int64, error) {
	var id uint64
	if len(text) == 12 {
		if data, err := base64.URLEncoding.Strict().DecodeString(text); err == nil && len(data) == 8 {
			if id = binary.BigEndian.Uint64(data); id < 1<<bits {
				return int64(id), nil
			}
		}
	}
	return 0, expected("base64url text", fmt.Sprintf("to be 11 characters of base64url and `=`, at most 2^%d-1", bits), text)
}

func (e Encoding) digits() (string, error) {
	if digits, ok := alphabets[e]; ok {
		return digits, nil
	}
	return "", expected("encoding", "to be decimal, hex, base36, base62, base64url, crockford32, base62sort or base64sort", string(e))
}

// width is how many digits the largest ID of so many bits has.
func (e Encoding) width(bits int) int {
	if e == Base64URL || alphabets[e] == "" {
		return 0
	}
	text, _ := e.encode(1<<bits-1, 0)
	return len(text)
}

func checkBits(id int64, bits int) error {
	check := checks{}
	check.within("bits", int64(bits), 1, 63)
	if check.err == nil {
		check.within("ID", id, 0, 1<<bits-1)
	}
	if check.err != nil {
		return check.err
	}
	return nil
}
