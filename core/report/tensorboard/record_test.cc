#include "core/report/tensorboard/record.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::report::tensorboard {
namespace {

using ::testing::HasSubstr;

// By TensorBoard's own function: make_event_golden.py crc.
TEST(RecordTest, KnownChecksums) {
  EXPECT_EQ(MaskedCrc32c(""), 0xa282ead8u);
  EXPECT_EQ(MaskedCrc32c("a"), 0x28e46e78u);
  EXPECT_EQ(MaskedCrc32c("123456789"), 0xc78ab0e5u);
  EXPECT_EQ(MaskedCrc32c("TensorBoard"), 0x111b036au);
}

// A whole record, framed by TensorBoard's: an Event of 26 bytes.
TEST(RecordTest, KnownRecord) {
  const std::string record = absl::HexStringToBytes(
      "1a00000000000000129bd82d09000000000000294010032a0d0a0b0a046c6f7373150000803e74b9090c");
  const std::string event =
      absl::HexStringToBytes("09000000000000294010032a0d0a0b0a046c6f7373150000803e");
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
