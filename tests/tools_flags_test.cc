// Tests that programs refuse wrong flags and inputs with one clear sentence, and leave nothing.
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testlib/run_program.h"
#include "tests/testlib/small_training.h"

namespace dpipe {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testlib::FreshPath;
using testlib::ProgramOutcome;
using testlib::RunProgram;
using testlib::TrainFlags;

struct BadCase {
  const char* name;
  const char* program;
  std::vector<std::string> flags;
  const char* message;
  int exit_code = 1;
};

void PrintTo(const BadCase& bad, std::ostream* out) { *out << bad.name; }

class BadToolFlagsTest : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadToolFlagsTest, OneClearSentenceAndAnExitStatus) {
  const BadCase& bad = GetParam();
  const std::string out = FreshPath("never");
  std::vector<std::string> flags = {"--out=" + out};
  if (bad.program == std::string("tools/train")) flags = TrainFlags(out);
  if (bad.program == std::string("tools/sample")) flags = {"--out=" + out + ".png"};
  if (bad.program == std::string("tools/score")) flags.clear();
  flags.insert(flags.end(), bad.flags.begin(), bad.flags.end());
  const ProgramOutcome run = RunProgram(bad.program, flags);
  EXPECT_EQ(run.exit_code, bad.exit_code) << run.out << run.err;
  EXPECT_THAT(run.err, HasSubstr(bad.message));
  EXPECT_FALSE(fs::exists(out));
  // The test's own folder has a longer name than users' folders.
  for (const auto line :
       absl::StrSplit(absl::StrReplaceAll(run.err, {{::testing::TempDir(), "/"}}), '\n')) {
    EXPECT_LE(line.size(), 300u) << line;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Flags, BadToolFlagsTest,
    ::testing::Values(
        BadCase{"UnknownFlag",
                "tools/train",
                {"--stepz=3"},
                "no flag --stepz; did you mean --steps?",
                2},
        BadCase{"UnknownDType",
                "tools/train",
                {"--dtype=fp8"},
                "--dtype=fp8: it must be one of fp32, bf16",
                2},
        BadCase{"UnknownBackend",
                "tools/sample",
                {"--prompt=x", "--backend=tpu"},
                "unknown --backend=tpu; expected auto, cpu or cuda",
                2},
        BadCase{"UnknownStrategy", "tools/train", {"--strategy=magic"}, "magic", 2},
        BadCase{
            "LongValue", "tools/train", {"--dtype=" + std::string(9000, 'x')}, "one of fp32", 2},
        BadCase{
            "LongModel", "tools/train", {"--model=" + std::string(9000, 'x')}, "unknown --model="},
        BadCase{"ModelOfTheHub",
                "tools/train",
                {"--model=runwayml/stable-diffusion-v1-5"},
                "huggingface-cli download runwayml/stable-diffusion-v1-5 --local-dir"},
        BadCase{"LoraOfTheHub",
                "tools/sample",
                {"--prompt=x", "--lora=user/cat-lora"},
                "huggingface-cli download user/cat-lora --local-dir"},
        BadCase{
            "DataByUrl", "tools/train", {"--data=https://e.org/x.tar"}, "nothing is downloaded"},
        BadCase{"OutputInData",
                "tools/train",
                {"--data=/usr", "--out=/usr/share/run"},
                "--out=/usr/share/run is inside --data=/usr: the output would become data"},
        BadCase{"OutputOfOthersInData",
                "tools/train",
                {"--evaluation.data=/usr", "--log=/usr/log"},
                "--log=/usr/log is inside --evaluation.data=/usr"},
        BadCase{
            "UnknownSchedule", "tools/train", {"--lr_schedule=steps"}, "--lr_schedule=steps", 2},
        BadCase{
            "UnknownPrediction", "tools/train", {"--prediction_type=v"}, "--prediction_type=v:", 2},
        BadCase{"MissingData", "tools/train", {"--data=/no/such/folder"}, "/no/such/folder"},
        BadCase{"MissingModel", "tools/train", {"--model=/no/such/model"}, "/no/such/model"},
        BadCase{"AspectBelowOne",
                "tools/train",
                {"--data.max_aspect=0.5"},
                "--data.max_aspect=0.5: it must be a number, at least 1 and at most 4",
                2},
        BadCase{"PatchesOfACascade",
                "tools/train",
                {"--model=tiny_cdm", "--data.patch_share=0.5"},
                "takes no patch coordinates"},
        BadCase{"TooManyDevices", "tools/train", {"--devices=1000"}, "1000 CPU devices"},
        BadCase{"BatchDoesNotDivide", "tools/train", {"--global_batch=5"}, "--global_batch=5", 2},
        BadCase{"Endless", "tools/train", {"--steps=0"}, "--steps=0 and --minutes=0", 2},
        BadCase{"SampleWithoutPrompt", "tools/sample", {}, "--prompt", 2},
        BadCase{"SampleIntoAFolder",
                "tools/sample",
                {"--prompt=a red circle", "--out=" + ::testing::TempDir()},
                "is a folder; expected the name of a .png file",
                2},
        BadCase{"SampleAsJpeg",
                "tools/sample",
                {"--prompt=a red circle", "--out=a.jpg"},
                "--out=a.jpg must end in .png",
                2},
        BadCase{"NegativeGuidance",
                "tools/sample",
                {"--prompt=a red circle", "--guidance=-3"},
                "--guidance=-3 must be at least 0",
                2},
        BadCase{"UnknownSampler",
                "tools/sample",
                {"--prompt=a red circle", "--sampler=heun"},
                "unknown sampler 'heun'; there are folder (the scheduler of the model's folder), "
                "ddim, ",
                2},
        BadCase{"NoControlNet",
                "tools/sample",
                {"--prompt=a red circle", "--model=tiny_sd", "--control=a.png"},
                "has no ControlNet"},
        BadCase{"NoSampleSteps",
                "tools/sample",
                {"--prompt=a red circle", "--steps=0"},
                "--steps=0 must be at least 1",
                2},
        BadCase{"SampleTypo",
                "tools/sample",
                {"--promt=a red circle"},
                "sample: there is no flag --promt; did you mean --prompt?",
                2},
        BadCase{"SampleOfMissingModel",
                "tools/sample",
                {"--prompt=a red circle", "--model=/no/such/model"},
                "/no/such/model"},
        BadCase{"TooManySampleSteps",
                "tools/sample",
                {"--prompt=a red circle", "--steps=5000"},
                "5000"},
        BadCase{"ScoreOfNothing", "tools/score", {"--count=0"}, "--count=0", 2},
        BadCase{"NotAMultipleOfTheQuantum",
                "tools/train",
                {"--global_batch=6", "--micro_batches=0", "--frozen_quantum=4"},
                "6 samples are not a multiple of the 4 samples that frozen components are profiled "
                "and run on at a time (--frozen_quantum)"},
        BadCase{"StrayArgument", "tools/score", {"now"}, "unexpected argument 'now'", 2}),
    [](const ::testing::TestParamInfo<BadCase>& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace dpipe
