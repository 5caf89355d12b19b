// A small training run by the trainer's program, for tests of programs as users run them.
#ifndef DPIPE_TESTS_TESTLIB_SMALL_TRAINING_H_
#define DPIPE_TESTS_TESTLIB_SMALL_TRAINING_H_

#include <sstream>
#include <string>
#include <vector>

#include "core/base/files/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/testlib/run_program.h"

namespace dpipe::testlib {

inline constexpr int kSteps = 6;

// A user's own folder, created once.
inline const std::string& DataFolder() {
  static const auto* const kFolder = [] {
    const std::string folder = FreshPath("images");
    const ProgramOutcome made =
        RunProgram("data/make_dataset", {"--out=" + folder, "--count=32", "--seed=3"});
    EXPECT_EQ(made.exit_code, 0) << made.err;
    return new std::string(folder);
  }();
  return *kFolder;
}

inline std::vector<std::string> TrainFlags(const std::string& out) {
  return {"--data=" + DataFolder(),
          "--out=" + out,
          "--global_batch=4",
          "--micro_batches=2",
          "--frozen_quantum=2",
          "--backend=cpu",
          "--devices=2",
          "--warmup=2",
          "--steps=" + std::to_string(kSteps),
          "--minutes=0",
          "--sample_steps=2"};
}

inline ProgramOutcome Train(const std::string& out, const std::vector<std::string>& more) {
  std::vector<std::string> flags = TrainFlags(out);
  flags.insert(flags.end(), more.begin(), more.end());
  return RunProgram("tools/train", flags);
}

// Returns the lines about steps.
inline std::vector<nlohmann::json> ReadLog(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(ReadFile(path).value_or(""));
  for (std::string line; std::getline(text, line);) {
    const auto parsed = nlohmann::json::parse(line);
    if (parsed.contains("loss")) lines.push_back(parsed);
  }
  return lines;
}

// One trained model for the tests that only read it.
inline const std::string& TrainedModel() {
  static const auto* const kFolder = [] {
    const std::string out = FreshPath("trained");
    const ProgramOutcome run = Train(out, {"--save_every=4", "--sample_every=3"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    for (const char* expected : {"Plan:", "diffusionpipe", "Trained 6 steps, 24 images",
                                 "Model:", "Samples:", "bazel run //tools:sample -- --model="}) {
      EXPECT_THAT(run.out, ::testing::HasSubstr(expected));
    }
    return new std::string(out);
  }();
  return *kFolder;
}

}  // namespace dpipe::testlib

#endif  // DPIPE_TESTS_TESTLIB_SMALL_TRAINING_H_
