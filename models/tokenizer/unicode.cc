#include "models/tokenizer/unicode.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "models/tokenizer/unicode_tables.h"

namespace dpipe::unicode {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

// Hangul syllables follow a formula: (lead * 21 + vowel) * 28 + trail.
constexpr char32_t kHangulBase = 0xAC00, kLeadBase = 0x1100, kVowelBase = 0x1161,
                   kTrailBase = 0x11A7;
constexpr char32_t kLeads = 19, kVowels = 21, kTrails = 28;
constexpr char32_t kSyllables = kLeads * kVowels * kTrails;

// Returns the run of a sorted table whose bounds include `code`, or null.
template <typename Run>
const Run* FindRun(const Run* runs, int count, char32_t code) {
  const Run* next = std::upper_bound(runs, runs + count, code,
                                     [](char32_t c, const Run& run) { return c < run.first; });
  return next == runs || code > (next - 1)->last ? nullptr : next - 1;
}

int CombiningClass(char32_t code) {
  const CombiningRun* run = FindRun(kCombining, kCombiningCount, code);
  return run == nullptr ? 0 : run->combining_class;
}

const Decomposition* FindDecomposition(char32_t code) {
  const Decomposition* end = kDecompositions + kDecompositionsCount;
  const Decomposition* found = std::lower_bound(
      kDecompositions, end, code, [](const Decomposition& d, char32_t c) { return d.code < c; });
  return found == end || found->code != code ? nullptr : found;
}

void AppendDecomposed(char32_t code, std::u32string& out) {
  if (code >= kHangulBase && code < kHangulBase + kSyllables) {
    const char32_t index = code - kHangulBase;
    out += kLeadBase + index / (kVowels * kTrails);
    out += kVowelBase + index / kTrails % kVowels;
    if (index % kTrails != 0) out += kTrailBase + index % kTrails;
    return;
  }
  const Decomposition* decomposition = FindDecomposition(code);
  if (decomposition == nullptr) {
    out += code;
    return;
  }
  AppendDecomposed(decomposition->head, out);  // tails never decompose further
  if (decomposition->tail != 0) out += decomposition->tail;
}

// Returns the composing rows, sorted by (head, tail).
const std::vector<const Decomposition*>& Compositions() {
  static const auto& rows = *[] {
    auto* sorted = new std::vector<const Decomposition*>;
    for (int i = 0; i < kDecompositionsCount; ++i) {
      if (kDecompositions[i].composes) sorted->push_back(&kDecompositions[i]);
    }
    std::sort(sorted->begin(), sorted->end(), [](const Decomposition* a, const Decomposition* b) {
      return a->head != b->head ? a->head < b->head : a->tail < b->tail;
    });
    return sorted;
  }();
  return rows;
}

// Returns the character composed of (head, tail), or 0.
char32_t Compose(char32_t head, char32_t tail) {
  if (head >= kLeadBase && head < kLeadBase + kLeads && tail >= kVowelBase &&
      tail < kVowelBase + kVowels) {
    return kHangulBase + ((head - kLeadBase) * kVowels + (tail - kVowelBase)) * kTrails;
  }
  if (head >= kHangulBase && head < kHangulBase + kSyllables &&
      (head - kHangulBase) % kTrails == 0 && tail > kTrailBase && tail < kTrailBase + kTrails) {
    return head + (tail - kTrailBase);
  }
  const auto& rows = Compositions();
  const auto found = std::lower_bound(
      rows.begin(), rows.end(), std::make_pair(head, tail),
      [](const Decomposition* row, const std::pair<char32_t, char32_t>& key) {
        return row->head != key.first ? row->head < key.first : row->tail < key.second;
      });
  if (found == rows.end() || (*found)->head != head || (*found)->tail != tail) return 0;
  return (*found)->code;
}

// Sorts each run of marks stably by combining class.
void OrderMarks(std::u32string& text) {
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = begin;
    while (end < text.size() && CombiningClass(text[end]) != 0) ++end;
    std::stable_sort(text.begin() + begin, text.begin() + end,
                     [](char32_t a, char32_t b) { return CombiningClass(a) < CombiningClass(b); });
    begin = end + 1;
  }
}

// Joins each mark to the last starter unless a mark of the same or a higher class is in between.
std::u32string ComposeAll(const std::u32string& text) {
  std::u32string out;
  size_t starter = std::u32string::npos;
  int last_class = 0;  // of the last character kept after the starter; 0 if none
  for (const char32_t code : text) {
    const int combining_class = CombiningClass(code);
    const bool adjacent = starter != std::u32string::npos && starter + 1 == out.size();
    if (starter != std::u32string::npos && (adjacent || last_class < combining_class)) {
      const char32_t composed = Compose(out[starter], code);
      if (composed != 0) {
        out[starter] = composed;
        continue;
      }
    }
    if (combining_class == 0) starter = out.size();
    last_class = combining_class;
    out += code;
  }
  return out;
}

// Returns the length of the well-formed sequence at the front of `text`, or 0. Sets `code` to its
// value.
int DecodeOne(absl::string_view text, char32_t& code) {
  const auto byte = [&text](int i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) {
    code = lead;
    return 1;
  }
  const int length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < static_cast<size_t>(length)) return 0;
  code = lead & (0x7F >> length);
  for (int i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3F);
  }
  constexpr char32_t kLowest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  return code < kLowest[length] || code > 0x10FFFF || surrogate ? 0 : length;
}

}  // namespace

std::u32string FromUtf8(absl::string_view text) {
  std::u32string out;
  while (!text.empty()) {
    char32_t code = kReplacement;
    const int length = DecodeOne(text, code);
    out += length == 0 ? kReplacement : code;
    text.remove_prefix(std::max(1, length));
  }
  return out;
}

void AppendUtf8(char32_t code, std::string& out) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | code >> 6);
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | code >> 12);
    out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | code >> 18);
    out += static_cast<char>(0x80 | (code >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

std::string ToUtf8(const std::u32string& text) {
  std::string out;
  for (const char32_t code : text) AppendUtf8(code, out);
  return out;
}

bool IsLetter(char32_t code) { return FindRun(kLetters, kLettersCount, code) != nullptr; }

bool IsNumber(char32_t code) { return FindRun(kNumbers, kNumbersCount, code) != nullptr; }

bool IsWhitespace(char32_t code) {
  return (code >= 9 && code <= 13) || code == 0x20 || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

std::u32string ToLowercase(const std::u32string& text) {
  std::u32string out;
  for (const char32_t code : text) {
    if (code == 0x130) {  // the one character with a two-character lower case
      out += U"i\u0307";
      continue;
    }
    const LowercaseRun* run = FindRun(kLowercase, kLowercaseCount, code);
    const bool mapped = run != nullptr && (code - run->first) % run->step == 0;
    out += mapped ? code + run->delta : code;
  }
  return out;
}

std::u32string ToNfc(const std::u32string& text) {
  // Nothing below U+0300 changes, which covers most captions.
  if (std::all_of(text.begin(), text.end(), [](char32_t c) { return c < 0x300; })) return text;
  std::u32string decomposed;
  for (const char32_t code : text) AppendDecomposed(code, decomposed);
  OrderMarks(decomposed);
  return ComposeAll(decomposed);
}

}  // namespace dpipe::unicode
