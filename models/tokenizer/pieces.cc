#include "models/tokenizer/pieces.h"

#include "models/tokenizer/unicode.h"

namespace dpipe {
namespace {

using unicode::IsLetter;
using unicode::IsNumber;
using unicode::IsWhitespace;

bool IsOther(char32_t c) { return !IsLetter(c) && !IsNumber(c) && !IsWhitespace(c); }

// Length of the first of `words` that `text` holds at `begin`, or 0.
template <size_t N>
size_t MatchAny(const std::u32string& text, size_t begin, const char32_t* const (&words)[N]) {
  for (const char32_t* word : words) {
    const std::u32string expected(word);
    if (text.compare(begin, expected.size(), expected) == 0) return expected.size();
  }
  return 0;
}

// CLIP's own marks, where they come as text and not as special tokens (in capitals, say), end a run
// of other characters as its pattern has it, and then fall apart like any text: <|  startoftext |>.
size_t MatchMark(const std::u32string& text, size_t begin) {
  static const char32_t* const kMarks[] = {U"<|startoftext|>", U"<|endoftext|>"};
  return MatchAny(text, begin, kMarks);
}

size_t MatchContraction(const std::u32string& text, size_t begin) {
  static const char32_t* const kContractions[] = {U"'s", U"'t",  U"'re", U"'ve",
                                                  U"'m", U"'ll", U"'d"};
  return MatchAny(text, begin, kContractions);
}

template <typename Class>
size_t RunLength(const std::u32string& text, size_t begin, Class is_member) {
  size_t end = begin;
  while (end < text.size() && is_member(text[end])) ++end;
  return end - begin;
}

}  // namespace

std::vector<std::string> SplitIntoPieces(absl::string_view text) {
  const std::u32string clean = unicode::ToLowercase(unicode::ToNfc(unicode::FromUtf8(text)));
  std::vector<std::string> pieces;
  const auto add = [&](size_t begin, size_t length) {
    pieces.push_back(unicode::ToUtf8(clean.substr(begin, length)));
  };
  size_t at = 0;
  while (at < clean.size()) {
    if (IsWhitespace(clean[at])) {
      ++at;
      continue;
    }
    if (const size_t length = MatchMark(clean, at); length > 0) {
      add(at, 2);
      add(at + 2, length - 4);
      add(at + length - 2, 2);
      at += length;
      continue;
    }
    size_t length = MatchContraction(clean, at);
    if (length == 0) length = RunLength(clean, at, IsLetter);
    if (length == 0) length = IsNumber(clean[at]) ? 1 : RunLength(clean, at, IsOther);
    add(at, length);
    at += length;
  }
  return pieces;
}

}  // namespace dpipe
