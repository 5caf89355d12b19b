#include "tools/training_log.h"

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "core/base/file.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dpipe::tools {
namespace {

TEST(RunningMeanTest, ByHand) {
  RunningMean mean(0.5);
  EXPECT_EQ(mean.mean(), 0);
  mean.Add(4);
  EXPECT_DOUBLE_EQ(mean.mean(), 4);
  mean.Add(1);
  EXPECT_DOUBLE_EQ(mean.mean(), (0.5 * 4 + 1) / 1.5);
  mean.Add(2);
  EXPECT_DOUBLE_EQ(mean.mean(), (0.25 * 4 + 0.5 * 1 + 2) / 1.75);
}

TEST(TrainingLogTest, OneJsonObjectALine) {
  const std::string path = testing::TempDir() + "/new_folder/log.jsonl";
  for (int run = 0; run < 2; ++run) {  // the second run starts anew
    const auto log = TrainingLog::Create(path);
    ASSERT_TRUE(log.ok()) << log.status();
    (*log)->Write({1, 1.25, 1e-3, 98.5, 0.5});
    (*log)->Write({2, 1.0, 2e-3, 99.0, 0.75});
    ASSERT_TRUE((*log)->Flush().ok());
    const std::vector<std::string> lines = absl::StrSplit(ReadFile(path).value(), '\n');
    ASSERT_EQ(lines.size(), 3u);
    EXPECT_EQ(lines[2], "");
    const auto json = nlohmann::json::parse(lines[1]);
    EXPECT_EQ(json["step"], 2);
    EXPECT_EQ(json["loss"], 1.0);
    EXPECT_EQ(json["lr"], 2e-3);
    EXPECT_EQ(json["images_per_second"], 99.0);
    EXPECT_EQ(json["elapsed_s"], 0.75);
  }
}

TEST(TrainingLogTest, NamesTheFileThatCannotBeWritten) {
  const auto log = TrainingLog::Create(testing::TempDir());  // a folder
  ASSERT_FALSE(log.ok());
  EXPECT_NE(log.status().message().find(testing::TempDir()), std::string::npos);
}

}  // namespace
}  // namespace dpipe::tools
