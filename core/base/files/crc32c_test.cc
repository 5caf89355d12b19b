#include "core/base/files/crc32c.h"

#include <string>

#include "core/base/philox.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

std::string RandomBytes(RandomStream* random, int size) {
  std::string bytes;
  for (int i = 0; i < size; ++i) bytes += static_cast<char>(random->NextBelow(256));
  return bytes;
}

TEST(Crc32cTest, KnownValues) {
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  // RFC 3720, appendix B.4.
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
}

TEST(Crc32cTest, BothWaysAndAnyCutGiveTheSame) {
  RandomStream random(1, 0, 0, RandomPurpose::kTest);
  for (int size = 0; size < 200; ++size) {
    const std::string bytes = RandomBytes(&random, size);
    const absl::string_view view(bytes);
    const uint32_t whole = Crc32c(view);
    EXPECT_EQ(internal::ExtendCrc32cPortably(0, view), whole) << size;
    const size_t cut = random.NextBelow(size + 1);
    EXPECT_EQ(ExtendCrc32c(Crc32c(view.substr(0, cut)), view.substr(cut)), whole) << size;
  }
}

TEST(Crc32cTest, EveryFlippedBitShows) {
  RandomStream random(2, 0, 0, RandomPurpose::kTest);
  std::string bytes = RandomBytes(&random, 100);
  const uint32_t right = Crc32c(bytes);
  for (int bit = 0; bit < 800; ++bit) {
    bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
    EXPECT_NE(Crc32c(bytes), right) << bit;
    bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
  }
}

}  // namespace
}  // namespace dpipe
