#include "core/report/tensorboard/record.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::report::tensorboard {
namespace {

using ::testing::HasSubstr;
using std::string_literals::operator""s;

// Computed by TensorBoard's own function: make_event_golden.py crc.
TEST(RecordTest, KnownChecksums) {
  EXPECT_EQ(MaskedCrc32c(""), 0xa282ead8u);
  EXPECT_EQ(MaskedCrc32c("a"), 0x28e46e78u);
  EXPECT_EQ(MaskedCrc32c("123456789"), 0xc78ab0e5u);
  EXPECT_EQ(MaskedCrc32c("TensorBoard"), 0x111b036au);
}

// A complete record framed by TensorBoard: an Event of 26 bytes.
TEST(RecordTest, KnownRecord) {
  const std::string event =
      "\x09\0\0\0\0\0\0\x29\x40\x10\x03\x2a\x0d\x0a\x0b\x0a\x04loss\x15\0\0\x80\x3e"s;
  const std::string record = "\x1a\0\0\0\0\0\0\0\x12\x9b\xd8\x2d"s + event + "\x74\xb9\x09\x0c"s;
  EXPECT_EQ(FrameRecord(event), record);
  const auto records = UnframeRecords(record);
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ(*records, std::vector<std::string>({event}));
}

TEST(RecordTest, RecordsFollowEachOtherAndDamageIsFound) {
  const std::string content =
      absl::StrCat(FrameRecord("one"), FrameRecord(""), FrameRecord("three"));
  const auto records = UnframeRecords(content);
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ(*records, std::vector<std::string>({"one", "", "three"}));
  for (size_t i = 0; i < content.size(); ++i) {
    std::string damaged = content;
    damaged[i] ^= 4;
    EXPECT_FALSE(UnframeRecords(damaged).ok()) << "byte " << i;
  }
  const auto cut = UnframeRecords(absl::string_view(content).substr(0, content.size() - 1));
  EXPECT_THAT(std::string(cut.status().message()), HasSubstr("record 2 is cut off"));
}

}  // namespace
}  // namespace dpipe::report::tensorboard
