// The commands that a training run suggests at its end fit its data and its model, and work.
#include <sstream>
#include <string>
#include <vector>

#include "core/base/files/file.h"
#include "data/images/image_decode.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testlib/run_program.h"
#include "tests/testlib/small_training.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;
using testlib::DataFolder;
using testlib::FreshPath;
using testlib::ProgramOutcome;
using testlib::RunProgram;
using testlib::Train;

// Returns the commands after "Next:", without "bazel run //", one per line.
std::vector<std::string> NextCommands(const std::string& printed) {
  std::vector<std::string> commands;
  std::istringstream lines(printed.substr(printed.find("Next:")));
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = line.find("bazel run //");
    if (begin != std::string::npos) commands.push_back(line.substr(begin + 12));
  }
  return commands;
}

TEST(NextCommandsTest, FitOwnPicturesTheirSizeAndAdapters) {
  const std::string out = FreshPath("own_pictures"), grid = FreshPath("own_pictures.png");
  const ProgramOutcome run =
      Train(out, {"--model.image_size=32", "--model.lora_rank=2", "--steps=1", "--samples=false"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::vector<std::string> next = NextCommands(run.out);
  ASSERT_EQ(next.size(), 1u) << "score knows only the built-in scenes: " << run.out;
  const std::string start = "tools:sample -- --model=" + out + " --image_size=32 '--prompt=";
  ASSERT_EQ(next[0].substr(0, start.size()), start);
  const std::string prompt = next[0].substr(start.size(), next[0].find('|') - start.size());
  EXPECT_THAT(*ReadFile(DataFolder() + "/metadata.jsonl"), HasSubstr("\"" + prompt + "\""));
  const ProgramOutcome sample =
      RunProgram("/bin/bash", {"-c", "tools/sample --steps=2 --zoom=1 --out=" + grid + " " +
                                         next[0].substr(std::string("tools:sample -- ").size())});
  ASSERT_EQ(sample.exit_code, 0) << sample.err;
  const auto image = ReadImage(grid);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->width, 2 * (32 + 4) + 4) << "two images of 32 pixels, and margins";
}

TEST(NextCommandsTest, FitTheBuiltInScenes) {
  const std::string out = FreshPath("built_in");
  const ProgramOutcome run =
      RunProgram("tools/train", {"--backend=cpu", "--devices=2", "--global_batch=2", "--steps=1",
                                 "--minutes=0", "--samples=false", "--out=" + out});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::vector<std::string> next = NextCommands(run.out);
  ASSERT_EQ(next.size(), 2u) << run.out;
  EXPECT_THAT(next[0],
              ::testing::MatchesRegex("tools:sample -- --model=.* '--prompt=a .*[|]a .*'"));
  EXPECT_EQ(next[1], "tools:score -- --model=" + out + " --untrained");
}

}  // namespace
}  // namespace dpipe
