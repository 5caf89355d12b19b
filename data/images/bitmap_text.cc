#include "data/images/bitmap_text.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"
#include "utf8proc.h"

namespace dpipe {
namespace {

constexpr char kRows[] = "0123456789ABCDEFGHIJKLMNOPQRSTUV";
constexpr int kGlyphWidth = 5, kGlyphHeight = 9;
constexpr int kFirstLetter = ' ', kLastLetter = '~';
constexpr char32_t kEllipsis = U'\u2026';

// A digit of kRows per row of pixels, the leftmost pixel in its highest bit: 'H' is X...X. The last
// two rows are below the baseline. ' ' to '~', then the ellipsis and the box.
constexpr absl::string_view kGlyphs[] = {
    "000000000", "444440400", "AAA000000", "AAVAVAA00", "4FKE5U400", "OP248J300", "CIK8LID00",
    "444000000", "248884200", "842224800", "04LEL4000", "044V44000", "00000CC48", "000E00000",
    "00000CC00", "11248GG00", "EHJLPHE00", "4C4444E00", "EH1248V00", "V2421HE00", "26AIV2200",
    "VGU11HE00", "68GUHHE00", "V12488800", "EHHEHHE00", "EHHF12C00", "0CC0CC000", "0CC0CC480",
    "248G84200", "00V0V0000", "842124800", "EH1240400", "EH1DLLE00", "EHHHVHH00", "UHHUHHU00",
    "EHGGGHE00", "SIHHHIS00", "VGGUGGV00", "VGGUGGG00", "EHGNHHF00", "HHHVHHH00", "E44444E00",
    "72222IC00", "HIKOKIH00", "GGGGGGV00", "HRLLHHH00", "HHPLJHH00", "EHHHHHE00", "UHHUGGG00",
    "EHHHLID00", "UHHUKIH00", "FGGE11U00", "V44444400", "HHHHHHE00", "HHHHHA400", "HHHLLLA00",
    "HHA4AHH00", "HHHA44400", "V1248GV00", "E88888E00", "GG8421100", "E22222E00", "4AH000000",
    "0000000V0", "842000000", "00E1FHF00", "GGMPHHU00", "00EGGHE00", "11DJHHF00", "00EHVGE00",
    "698S88800", "00FHHHF1E", "GGMPHHH00", "40C444E00", "2062222IC", "GGIKOKI00", "C44444E00",
    "00QLLHH00", "00MPHHH00", "00EHHHE00", "00UHHHUGG", "00FHHHF11", "00MPGGG00", "00FGE1U00",
    "88S889600", "00HHHJD00", "00HHHA400", "00HHLLA00", "00HA4AH00", "00HHHHF1E", "00V248V00",
    "244844200", "444444400", "844244800", "008L20000", "000000L00", "VHHHHHV00",
};
static_assert(sizeof(kGlyphs) / sizeof(kGlyphs[0]) == kLastLetter - kFirstLetter + 3);

const absl::string_view& GlyphOf(char32_t letter) {
  constexpr int kEllipsisIndex = kLastLetter - kFirstLetter + 1;
  if (letter == kEllipsis) return kGlyphs[kEllipsisIndex];
  if (letter < kFirstLetter || letter > kLastLetter) return kGlyphs[kEllipsisIndex + 1];
  return kGlyphs[letter - kFirstLetter];
}

// Typographic signs that have an ASCII sign of the same meaning.
char32_t PlainSign(char32_t letter) {
  switch (letter) {
    case U'\u2018':
    case U'\u2019':
      return '\'';
    case U'\u201c':
    case U'\u201d':
    case U'\u201e':
      return '"';
    case U'\u2013':
    case U'\u2014':
      return '-';
    default:
      return letter;
  }
}

std::u32string Decode(absl::string_view text) {
  std::u32string letters;
  while (!text.empty()) {
    utf8proc_int32_t code = 0;
    const utf8proc_ssize_t length =
        utf8proc_iterate(reinterpret_cast<const uint8_t*>(text.data()),
                         static_cast<utf8proc_ssize_t>(text.size()), &code);
    letters += length > 0 ? static_cast<char32_t>(code) : U'\ufffd';
    text.remove_prefix(length > 0 ? static_cast<size_t>(length) : 1);
  }
  return letters;
}

std::string Encode(const std::u32string& letters) {
  std::string text;
  for (const char32_t letter : letters) {
    uint8_t bytes[4];
    const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(letter), bytes);
    text.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
  }
  return text;
}

// Returns the letters as the font has them; every white space is ' '.
std::u32string PlainLetters(const std::string& text) {
  std::u32string plain;
  for (const char32_t letter : Decode(text)) {
    const auto code = static_cast<utf8proc_int32_t>(letter);
    if (letter < ' ' || utf8proc_category(code) == UTF8PROC_CATEGORY_ZS) {
      plain += ' ';
      continue;
    }
    utf8proc_int32_t parts[32];  // the longest decomposition has 18
    int boundary = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(
        code, parts, 32,
        static_cast<utf8proc_option_t>(UTF8PROC_COMPAT | UTF8PROC_DECOMPOSE | UTF8PROC_STRIPMARK),
        &boundary);
    if (letter == kEllipsis || count < 0) {
      plain += letter;
    } else {
      for (utf8proc_ssize_t i = 0; i < count; ++i) {
        plain += PlainSign(static_cast<char32_t>(parts[i]));
      }
    }
  }
  return plain;
}

// Returns the words, and instead of longer ones their parts of `width` letters.
std::vector<std::u32string> WordParts(const std::u32string& letters, size_t width) {
  std::vector<std::u32string> parts;
  size_t begin = 0;
  while ((begin = letters.find_first_not_of(U' ', begin)) != std::u32string::npos) {
    const size_t end = std::min(letters.find(U' ', begin), letters.size());
    for (; begin < end; begin += parts.back().size()) {
      parts.push_back(letters.substr(begin, std::min(width, end - begin)));
    }
  }
  return parts;
}

}  // namespace

std::vector<std::string> WrapText(const std::string& text, int max_letters, int max_lines) {
  const auto width = static_cast<size_t>(max_letters);
  std::vector<std::u32string> lines;
  bool is_shortened = false;
  for (const std::u32string& part : WordParts(PlainLetters(text), width)) {
    if (!lines.empty() && lines.back().size() + 1 + part.size() <= width) {
      lines.back() += U' ' + part;
    } else if (lines.size() < static_cast<size_t>(max_lines)) {
      lines.push_back(part);
    } else {
      is_shortened = true;
      break;
    }
  }
  if (is_shortened) {
    lines.back().resize(std::min(lines.back().size(), width - 1));
    lines.back() += kEllipsis;
  }
  std::vector<std::string> encoded;
  for (const std::u32string& line : lines) encoded.push_back(Encode(line));
  return encoded;
}

void DrawText(const std::string& line, int x, int y, int scale, Image* image) {
  for (const char32_t letter : PlainLetters(line)) {
    const absl::string_view glyph = GlyphOf(letter);
    for (int v = 0; v < kGlyphHeight * scale; ++v) {
      const auto row = std::strchr(kRows, glyph[v / scale]) - kRows;
      for (int u = 0; u < kGlyphWidth * scale; ++u) {
        const bool inside =
            x + u >= 0 && x + u < image->width && y + v >= 0 && y + v < image->height;
        const bool is_set = row >> (kGlyphWidth - 1 - u / scale) & 1;
        if (inside && is_set) std::fill_n(image->At(x + u, y + v), 3, uint8_t{0});
      }
    }
    x += kLetterPitch * scale;
  }
}

}  // namespace dpipe
