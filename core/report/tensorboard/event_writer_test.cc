#include "core/report/tensorboard/event_writer.h"

#include <filesystem>

#include "core/base/files/file.h"
#include "core/report/tensorboard/record.h"
#include "gtest/gtest.h"

namespace dpipe::report::tensorboard {
namespace {

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
