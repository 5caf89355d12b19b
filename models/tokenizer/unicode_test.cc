#include "models/tokenizer/unicode.h"

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_split.h"
#include "core/base/files/file.h"
#include "gtest/gtest.h"

namespace dpipe::unicode {
namespace {

// The code points of Python's Unicode version; the library's may be a later one.
std::vector<char32_t> AssignedCodePoints() {
  const auto text = ReadFile("models/tokenizer/testdata/assigned_code_points.txt");
  EXPECT_TRUE(text.ok()) << text.status();
  std::vector<char32_t> codes;
  for (const auto line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> ends = absl::StrSplit(line, ' ');
    const auto code = [&ends](int i) {
      return static_cast<char32_t>(std::strtoul(ends[i].c_str(), nullptr, 16));
    };
    for (char32_t c = code(0); c <= code(1); ++c) codes.push_back(c);
  }
  EXPECT_GT(codes.size(), 280'000u);
  return codes;
}

// FNV-1a over the UTF-8 of f(c), each with a newline after it, for all of these code points.
template <typename Function>
uint64_t DigestOfAll(Function f) {
  uint64_t value = 0xCBF29CE484222325;
  for (const char32_t code : AssignedCodePoints()) {
    for (const char c : f(code) + '\n') {
      value = (value ^ static_cast<uint8_t>(c)) * 0x100000001B3;
    }
  }
  return value;
}

// The digests are those that make_unicode_goldens.py prints, from Python's unicodedata.
TEST(UnicodeTest, ClassesAgreeWithPythonForAllCodePoints) {
  EXPECT_EQ(DigestOfAll([](char32_t c) {
              return std::string(IsLetter(c) ? "L" : IsNumber(c) ? "N" : "-");
            }),
            0xa7e6db9f8d271bce);
}

TEST(UnicodeTest, LowercaseAgreesWithPythonForAllCodePoints) {
  EXPECT_EQ(DigestOfAll([](char32_t c) { return ToUtf8(ToLowercase(std::u32string(1, c))); }),
            0xd5279c9db482cea0);
}

TEST(UnicodeTest, NfcAgreesWithPythonForAllCodePoints) {
  const auto digest = [](const std::u32string& prefix) {
    return DigestOfAll([&](char32_t c) { return ToUtf8(ToNfc(prefix + c)); });
  };
  EXPECT_EQ(digest(U""), 0xe5972c561175ee93);
  EXPECT_EQ(digest(U"e\u0301"), 0xb6bd013d5a156bd5);
  EXPECT_EQ(digest(U"\u1100"), 0x822988bcce9b1787);
  EXPECT_EQ(digest(U"\uac00"), 0x479fcd5117d62446);
}

TEST(UnicodeTest, NfcOrdersAndComposesMarks) {
  EXPECT_EQ(ToNfc(U"cafe\u0301"), U"caf\u00e9");
  // Dot below (class 220) sorts before dot above (230), and both join.
  EXPECT_EQ(ToNfc(U"s\u0307\u0323"), U"\u1e69");
  // A mark of the same class stands between: the second acute stays.
  EXPECT_EQ(ToNfc(U"e\u0301\u0301"), U"\u00e9\u0301");
  EXPECT_EQ(ToNfc(U"\u1112\u1161\u11ab"), U"\ud55c");
  EXPECT_EQ(ToNfc(U"\u212b"), U"\u00c5");  // the angstrom sign is not composed back
}

TEST(UnicodeTest, Utf8RoundTrips) {
  for (char32_t code : {0x0, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF}) {
    const std::u32string text(1, code);
    EXPECT_EQ(FromUtf8(ToUtf8(text)), text) << static_cast<uint32_t>(code);
  }
}

TEST(UnicodeTest, MalformedUtf8BecomesReplacementCharacters) {
  EXPECT_EQ(FromUtf8("a\xff"
                     "b"),
            U"a\ufffd"
            U"b");
  EXPECT_EQ(FromUtf8("\xc0\x80"), U"\ufffd\ufffd");            // overlong
  EXPECT_EQ(FromUtf8("\xed\xa0\x80"), U"\ufffd\ufffd\ufffd");  // a surrogate
  EXPECT_EQ(FromUtf8("\xf4\x90\x80\x80").size(), 4u);          // above U+10FFFF
  EXPECT_EQ(FromUtf8("\xe2\x82"), U"\ufffd\ufffd");            // cut off
}

}  // namespace
}  // namespace dpipe::unicode
