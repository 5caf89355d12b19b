#include "data/fingerprint.h"

#include <set>

#include "core/base/philox.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

std::string Of(const std::string& bytes) { return Fingerprint().Add(bytes).ToString(); }

TEST(FingerprintTest, DistinguishesInputs) {
  EXPECT_EQ(Of("abc"), Of("abc"));
  EXPECT_EQ(Of("").size(), 32u);
  std::set<std::string> seen = {Of(""),
                                Of(std::string(1, '\0')),
                                Of(std::string(8, '\0')),
                                Of(std::string(9, '\0')),
                                Fingerprint().AddNumber(0).ToString(),
                                Fingerprint().Add("ab").Add("c").ToString(),
                                Fingerprint().Add("a").Add("bc").ToString()};
  EXPECT_EQ(seen.size(), 6u) << "no bytes and the number 0 are one word of zeros each";
}

// Every bit of a long text matters, and changes about half of the bits.
TEST(FingerprintTest, EveryBitCounts) {
  std::string text(100, '\0');
  RandomStream random(1, 0, 0, RandomPurpose::kTest);
  for (char& byte : text) byte = static_cast<char>(random.NextUint32());
  std::set<std::string> seen = {Of(text)};
  for (size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string changed = text;
    changed[bit / 8] ^= static_cast<char>(1 << bit % 8);
    const std::string fingerprint = Of(changed);
    EXPECT_TRUE(seen.insert(fingerprint).second) << "bit " << bit;
    int same_digits = 0;
    for (int i = 0; i < 32; ++i) same_digits += fingerprint[i] == Of(text)[i];
    EXPECT_LE(same_digits, 12) << "bit " << bit;
  }
}

}  // namespace
}  // namespace dpipe
