#include "core/comm/rendezvous/hmac.h"

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

// RFC 4231, test cases 1, 2 and 6.
TEST(HmacTest, PublishedValues) {
  const auto hmac = [](const std::string& key, const std::string& text) {
    return absl::BytesToHexString(HmacSha256(key, text));
  };
  EXPECT_EQ(hmac(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hmac("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(
      hmac(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(HmacTest, SameBytes) {
  EXPECT_TRUE(SameBytes("", ""));
  EXPECT_TRUE(SameBytes("abc", "abc"));
  EXPECT_FALSE(SameBytes("abc", "abd"));
  EXPECT_FALSE(SameBytes("abc", "ab"));
}

TEST(HmacTest, RandomBytesDiffer) {
  EXPECT_EQ(RandomBytes(32).size(), 32);
  EXPECT_NE(RandomBytes(32), RandomBytes(32));
}

}  // namespace
}  // namespace dpipe
