// Trains as a user does, from tar shards and from a folder. The same pictures in the same order
// give bit-identical losses and weights.
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "data/testing/tar_for_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/testlib/run_program.h"

namespace dpipe {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr int kNumImages = 24;
constexpr int kImagesPerShard = 8;
constexpr int kSteps = 8;

std::vector<json> ReadLines(const std::string& path) {
  std::vector<json> lines;
  std::istringstream text(ReadFile(path).value_or(""));
  for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
  return lines;
}

class ShardTrainingTest : public ::testing::Test {
 protected:
  // Makes pictures of several shapes, one of them damaged, as a folder and as shards.
  void SetUp() override {
    const testlib::ProgramOutcome made = testlib::RunProgram(
        "data/make_dataset",
        {"--out=" + images(), absl::StrCat("--count=", kNumImages), "--max_aspect=2", "--seed=3"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
    const std::string damaged = images() + "/00005.png";
    ASSERT_TRUE(WriteFileAtomically(damaged, ReadFile(damaged)->substr(0, 100)).ok());
    const std::vector<json> samples = ReadLines(images() + "/metadata.jsonl");
    ASSERT_EQ(samples.size(), static_cast<size_t>(kNumImages));
    std::vector<std::pair<std::string, std::string>> members;
    for (int i = 0; i < kNumImages; ++i) {
      const std::string name = samples[i]["file_name"];
      members.push_back({absl::StrCat(name.substr(0, 5), ".txt"), samples[i]["text"]});
      members.push_back({name, *ReadFile(images() + "/" + name)});
      if ((i + 1) % kImagesPerShard != 0) continue;
      const std::string shard = folder_.File(absl::StrCat("x-", i / kImagesPerShard, ".tar"));
      ASSERT_TRUE(WriteFileAtomically(shard, MakeTar(members)).ok());
      members.clear();
    }
  }

  std::string images() const { return folder_.File("images"); }
  std::string shards() const { return folder_.File("x-{0..2}.tar"); }
  std::string out(const std::string& name) const { return folder_.File(name); }

  void Train(const std::string& name, const std::string& data,
             const std::vector<std::string>& more) {
    std::vector<std::string> flags = {
        "--backend=cpu",    "--data=" + data,    "--out=" + out(name),
        "--global_batch=4", "--micro_batches=2", "--frozen_quantum=2",
        "--devices=2",      "--warmup=2",        absl::StrCat("--steps=", kSteps),
        "--minutes=0",      "--samples=false"};
    flags.insert(flags.end(), more.begin(), more.end());
    const testlib::ProgramOutcome run = testlib::RunProgram("tools/train", flags);
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("1 image that cannot be decoded")) << "the damaged one";
    EXPECT_THAT(run.out, HasSubstr(absl::StrCat(kNumImages, " images in ", data)));
  }

  std::vector<double> Losses(const std::string& name) const {
    std::vector<double> losses;
    for (const json& line : ReadLines(out(name) + "/log.jsonl")) {
      if (line.contains("loss")) losses.push_back(line["loss"]);
    }
    return losses;
  }
  std::string Weights(const std::string& name) const {
    return *ReadFile(out(name) + "/model/unet/diffusion_pytorch_model.safetensors");
  }

  void ExpectTheSame(const std::vector<std::string>& more) {
    Train("from_folder", images(), more);
    Train("from_shards", shards(), more);
    EXPECT_EQ(Losses("from_folder").size(), static_cast<size_t>(kSteps));
    EXPECT_EQ(Losses("from_folder"), Losses("from_shards"));
    EXPECT_EQ(Weights("from_folder"), Weights("from_shards"));
  }

  const ScratchFolder folder_;
};

TEST_F(ShardTrainingTest, TrainsAsFromAFolder) {
  ExpectTheSame({"--strategy=1f1b", "--flip", "--crop"});
  // The comparison can fail.
  Train("other_seed", shards(), {"--strategy=1f1b", "--flip", "--crop", "--seed=2"});
  EXPECT_NE(Losses("other_seed"), Losses("from_shards"));
}

TEST_F(ShardTrainingTest, TrainsAsFromAFolderInBuckets) {
  ExpectTheSame({"--strategy=1f1b", "--data.max_aspect=2"});
}

TEST_F(ShardTrainingTest, TrainsAsFromAFolderThroughACacheOnDisk) {
  // One schedule, because the faster of the two depends on the noise of profiling.
  ExpectTheSame(
      {"--strategy=offline_cache,schedule=single", "--data.cache=" + folder_.File("cache")});
}

}  // namespace
}  // namespace dpipe
