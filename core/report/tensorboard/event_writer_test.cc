#include "core/report/tensorboard/event_writer.h"

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
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

EventWriter::Options In(const std::string& name) {
  EventWriter::Options options;
  options.folder = ::testing::TempDir() + "/" + name;
  std::filesystem::remove_all(options.folder);
  options.clock = [] { return 1700000000.5; };
  return options;
}

std::vector<Event> EventsOf(const std::string& path) {
  const auto records = UnframeRecords(*ReadFile(path));
  EXPECT_TRUE(records.ok()) << records.status();
  std::vector<Event> events;
  for (const std::string& record : *records) {
    events.emplace_back();
    EXPECT_TRUE(events.back().ParseFromString(record));
  }
  return events;
}

TEST(EventWriterTest, WritesScalarsImagesAndTexts) {
  auto writer = EventWriter::Create(In("events"));
  ASSERT_TRUE(writer.ok()) << writer.status();
  (*writer)->Scalars(1, {{"train/loss", 0.5}, {"train/lr", 1e-3}});
  (*writer)->Image(2, "samples", 7, 5, "png bytes");
  (*writer)->Text(2, "config", "a: 1");
  ASSERT_TRUE((*writer)->Flush().ok());
  const std::vector<Event> events = EventsOf((*writer)->path());
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_EQ(events[0].wall_time(), 1700000000.5);
  EXPECT_EQ(events[1].step(), 1);
  ASSERT_EQ(events[1].summary().value_size(), 2);
  EXPECT_EQ(events[1].summary().value(1).tag(), "train/lr");
  EXPECT_EQ(events[1].summary().value(1).simple_value(), 1e-3f);
  EXPECT_EQ(events[2].summary().value(0).image().width(), 7);
  EXPECT_EQ(events[2].summary().value(0).image().encoded(), "png bytes");
  EXPECT_EQ(events[3].summary().value(0).metadata().plugin_data().plugin_name(), "text");
  EXPECT_EQ(events[3].summary().value(0).tensor().string_val(0), "a: 1");
}

TEST(EventWriterTest, ResumedRunWritesItsOwnFile) {
  EventWriter::Options options = In("resumed");
  const auto first = EventWriter::Create(options);
  options.first_step = 20;
  const auto second = EventWriter::Create(options);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_LT((*first)->path(), (*second)->path()) << "read in the order of names";
  const std::vector<Event> events = EventsOf((*second)->path());
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].session_log().status(), 1);
  EXPECT_EQ(events[1].step(), 21);
}

TEST(EventWriterTest, NamesTheFolderThatCannotBeWritten) {
  EventWriter::Options options = In("file");
  ASSERT_TRUE(WriteFileAtomically(options.folder, "no folder").ok());
  const auto writer = EventWriter::Create(options);
  ASSERT_FALSE(writer.ok());
  EXPECT_NE(writer.status().message().find(options.folder), std::string::npos);
}

}  // namespace

}  // namespace dpipe::report::tensorboard
