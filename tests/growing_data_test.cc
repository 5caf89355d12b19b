// A training run whose data set grows. If requested, it resumes with its weights, optimizer,
// averages and step, and can then be resumed like any other run.
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testlib/run_program.h"

namespace dpipe {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testlib::ProgramOutcome;
using testlib::RunProgram;

class GrowingDataTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const ProgramOutcome made = RunProgram("data/make_dataset", {"--out=" + images_, "--count=8"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }

  // Adds a copy of the first image under another name.
  void AddImage() {
    std::string metadata = ReadFile(images_ + "/metadata.jsonl").value();
    std::string row = metadata.substr(0, metadata.find('\n') + 1);
    const std::string name = "00000.png", copy = "99999.png";
    ASSERT_NE(row.find(name), std::string::npos) << row;
    row.replace(row.find(name), name.size(), copy);
    ASSERT_TRUE(WriteFileAtomically(images_ + "/metadata.jsonl", metadata + row).ok());
    fs::copy_file(images_ + "/" + name, images_ + "/" + copy);
  }

  ProgramOutcome Train(const std::string& out, const std::vector<std::string>& more) const {
    std::vector<std::string> flags = {"--data=" + images_,
                                      "--out=" + Out(out),
                                      "--strategy=data_parallel",
                                      "--global_batch=3",
                                      "--backend=cpu",
                                      "--devices=1",
                                      "--flip",
                                      "--warmup=2",
                                      "--steps=10",
                                      "--minutes=0",
                                      "--checkpoints.keep_last=9",
                                      "--samples=false",
                                      "--output.tensorboard=false"};
    flags.insert(flags.end(), more.begin(), more.end());
    return RunProgram("tools/train", flags, /*deadline_s=*/120);
  }
  std::string Out(const std::string& name) const { return scratch_.File(name); }
  std::string CheckpointOf(const std::string& name, int step) const {
    return absl::StrCat(Out(name), "/checkpoints/step_0000000", step);
  }

  const ScratchFolder scratch_;
  const std::string images_ = scratch_.File("images");
};

// Compares the tensors of two checkpoints: weights, moments, averages.
void ExpectSameTensors(const std::string& a, const std::string& b) {
  int num_files = 0;
  for (const auto& entry : fs::directory_iterator(a)) {
    if (entry.path().extension() != ".safetensors") continue;
    ++num_files;
    EXPECT_EQ(*ReadFile(entry.path()),
              ReadFile(absl::StrCat(b, "/", entry.path().filename().string())).value_or("none"))
        << entry.path();
  }
  EXPECT_GE(num_files, 4);
}

TEST_F(GrowingDataTest, ContinuesWithANewOrderOnRequest) {
  const ProgramOutcome before = Train("before", {"--checkpoint_every=4"});
  ASSERT_EQ(before.exit_code, 0) << before.out << before.err;
  AddImage();
  const std::string resume = "--resume=" + CheckpointOf("before", 4);

  ProgramOutcome grown = Train("grown", {resume, "--check"});
  EXPECT_EQ(grown.exit_code, 1) << grown.out;
  EXPECT_THAT(grown.err, AllOf(HasSubstr("the data set had 8 samples and has 9 now"),
                               HasSubstr("--allow_data_change resumes"),
                               HasSubstr("--model=" + Out("before") + " --init=checkpoint")));

  grown = Train("grown", {resume, "--allow_data_change", "--checkpoint_every=3"});
  ASSERT_EQ(grown.exit_code, 0) << grown.out << grown.err;
  EXPECT_THAT(grown.out, HasSubstr("Order:    starts over at step 4"));

  // Repeats a part of the run: the data set is the one that its checkpoint knows.
  const ProgramOutcome again =
      Train("again", {"--resume=" + CheckpointOf("grown", 6), "--checkpoint_every=0"});
  ASSERT_EQ(again.exit_code, 0) << again.out << again.err;
  EXPECT_THAT(again.out, Not(HasSubstr("Order:")));
  ExpectSameTensors(Out("grown") + "/checkpoints/step_00000010",
                    Out("again") + "/checkpoints/step_00000010");

  // The earlier order is different.
  EXPECT_NE(*ReadFile(Out("before") + "/model/unet/diffusion_pytorch_model.safetensors"),
            *ReadFile(Out("grown") + "/model/unet/diffusion_pytorch_model.safetensors"));
}

// A run with nothing left to do saves the state that it resumed with.
TEST_F(GrowingDataTest, KeepsWeightsOptimizerAndAverages) {
  const ProgramOutcome before = Train("before", {"--steps=3"});
  ASSERT_EQ(before.exit_code, 0) << before.out << before.err;
  AddImage();
  const ProgramOutcome grown =
      Train("grown", {"--steps=3", "--resume=" + CheckpointOf("before", 3), "--allow_data_change"});
  ASSERT_EQ(grown.exit_code, 0) << grown.out << grown.err;
  ExpectSameTensors(CheckpointOf("before", 3), CheckpointOf("grown", 3));
  EXPECT_EQ(*ReadFile(Out("before") + "/model/unet/diffusion_pytorch_model.safetensors"),
            *ReadFile(Out("grown") + "/model/unet/diffusion_pytorch_model.safetensors"));
}

}  // namespace
}  // namespace dpipe
