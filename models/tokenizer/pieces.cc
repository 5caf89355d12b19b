#include "models/tokenizer/pieces.h"

#include "models/tokenizer/unicode.h"

namespace dpipe {
namespace {

using unicode::IsLetter;
using unicode::IsNumber;
using unicode::IsWhitespace;

bool IsOther(char32_t c) { return !IsLetter(c) && !IsNumber(c) && !IsWhitespace(c); }

// Returns the length of the first of `words` that `text` has at `begin`, or 0.
template <size_t N>
size_t MatchAny(std::u32string_view text, size_t begin, const char32_t* const (&words)[N]) {
  for (const char32_t* word : words) {
    const std::u32string_view expected(word);
    if (text.compare(begin, expected.size(), expected) == 0) return expected.size();
  }
  return 0;
}

// CLIP's own marks can occur as text instead of special tokens, for example in capitals. As in
// CLIP's pattern they end a run of other characters, and are then split like any text, into "<|",
// "startoftext" and "|>".
size_t MatchMark(std::u32string_view text, size_t begin) {
  static const char32_t* const kMarks[] = {U"<|startoftext|>", U"<|endoftext|>"};
  return MatchAny(text, begin, kMarks);
}

size_t MatchContraction(std::u32string_view text, size_t begin) {
  static const char32_t* const kContractions[] = {U"'s", U"'t",  U"'re", U"'ve",
                                                  U"'m", U"'ll", U"'d"};
  return MatchAny(text, begin, kContractions);
}

template <typename Class>
size_t RunLength(std::u32string_view text, size_t begin, Class is_member) {
  size_t end = begin;
  while (end < text.size() && is_member(text[end])) ++end;
  return end - begin;
}

}  // namespace

std::u32string NormalizeText(absl::string_view text) {
  std::u32string normalized;
  for (const char32_t code : unicode::ToNfc(unicode::FromUtf8(text))) {
    if (!IsWhitespace(code)) {
      normalized += code;
    } else if (normalized.empty() || normalized.back() != U' ') {
      normalized += U' ';
    }
  }
  return unicode::ToLowercase(normalized);
}

std::vector<std::string> SplitIntoPieces(absl::string_view text) {
  return SplitNormalized(NormalizeText(text));
}

std::vector<std::string> SplitNormalized(std::u32string_view text) {
  std::vector<std::string> pieces;
  const auto add = [&](size_t begin, size_t length) {
    pieces.push_back(unicode::ToUtf8(std::u32string(text.substr(begin, length))));
  };
  size_t at = 0;
  while (at < text.size()) {
    if (IsWhitespace(text[at])) {
      ++at;
      continue;
    }
    if (const size_t length = MatchMark(text, at); length > 0) {
      add(at, 2);
      add(at + 2, length - 4);
      add(at + length - 2, 2);
      at += length;
      continue;
    }
    size_t length = MatchContraction(text, at);
    if (length == 0) length = RunLength(text, at, IsLetter);
    if (length == 0) length = IsNumber(text[at]) ? 1 : RunLength(text, at, IsOther);
    add(at, length);
    at += length;
  }
  return pieces;
}

}  // namespace dpipe
