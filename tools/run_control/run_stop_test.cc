#include "tools/run_control/run_stop.h"

#include <filesystem>
#include <string>

#include "core/base/files/file.h"
#include "gtest/gtest.h"

namespace dpipe::tools {

namespace {

TEST(RunSignalsTest, AreTakenFromBothPlacesOnce) {
  TrainerOptions options;
  options.out = ::testing::TempDir() + "/model";
  options.checkpoints.folder = ::testing::TempDir() + "/model/checkpoints";
  std::string said;
  const auto say = [&said](const std::string& line) { said += line + "\n"; };
  for (const std::string& folder : {options.out, options.checkpoints.folder}) {
    EXPECT_FALSE(TakeRunSignal(options, "STOP"));
    ASSERT_TRUE(MakeFolder(folder).ok());
    for (const char* name : {"/STOP", "/SAVE_NOW"}) {
      ASSERT_TRUE(WriteFileAtomically(folder + name, "").ok());
    }
    EXPECT_TRUE(TakeRunSignal(options, "STOP"));
    EXPECT_FALSE(TakeRunSignal(options, "STOP"));
    said.clear();
    DropRunSignals(options, say);
    EXPECT_EQ(said, "Note:     removed the file SAVE_NOW, which no longer applies\n");
    EXPECT_FALSE(std::filesystem::exists(folder + "/SAVE_NOW"));
  }
}

}  // namespace

}  // namespace dpipe::tools
