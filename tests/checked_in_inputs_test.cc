// Checks that the profiles and clusters in data/ are their generator's output, are valid, and can
// be used for planning.
#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "core/base/files/file.h"
#include "core/cost/cost_model.h"
#include "core/cost/testing/fake_profile.h"
#include "core/proto/profile_text.h"
#include "core/schedule/file_formats/plan_io.h"
#include "gtest/gtest.h"
#include "tools/profiles/catalogue.h"

namespace dpipe {
namespace {

const char kProfiles[] = "data/profiles/modelled/";
const char kClusters[] = "data/clusters/";
constexpr size_t kLargestProfile = 400 << 10;
constexpr size_t kAllProfiles = 8 << 20;

// Returns every textproto below `folder`, relative to it.
std::set<std::string> FilesBelow(const std::string& folder) {
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(
           folder, std::filesystem::directory_options::follow_directory_symlink)) {
    if (entry.path().extension() != ".textproto") continue;
    files.insert(std::filesystem::path(entry.path()).lexically_relative(folder).string());
  }
  return files;
}

// Regenerate with: bazel run //tools:make_profiles -- --output=data/profiles/modelled
TEST(CheckedInInputsTest, ModelledProfilesAreExactlyTheGeneratorsOutput) {
  std::set<std::string> expected;
  size_t total = 0;
  for (const tools::CatalogueEntry& entry : tools::Catalogue()) {
    expected.insert(entry.path);
    const auto text = ReadFile(kProfiles + entry.path);
    ASSERT_TRUE(text.ok()) << text.status();
    const auto profile = tools::ProfileOf(entry);
    ASSERT_TRUE(profile.ok()) << profile.status();
    EXPECT_TRUE(*text == ProfileText(*profile))
        << entry.path << " differs from the output of //tools:make_profiles";
    EXPECT_LT(text->size(), kLargestProfile) << entry.path;
    total += text->size();
  }
  EXPECT_LT(total, kAllProfiles);
  EXPECT_EQ(FilesBelow(kProfiles), expected);
}

TEST(CheckedInInputsTest, ModelledProfilesAreReadAndValid) {
  for (const std::string& file : FilesBelow(kProfiles)) {
    ModelProfile profile;
    const absl::Status read = ReadTextProto(kProfiles + file, &profile);
    ASSERT_TRUE(read.ok()) << read;
    EXPECT_NE(profile.provenance().find("modelled, not measured"), std::string::npos) << file;
    const auto cost = CostModel::Create(profile, IdealCluster(8));
    EXPECT_TRUE(cost.ok()) << file << ": " << cost.status();
  }
}

TEST(CheckedInInputsTest, MeasuredProfilesAreInTheFormOfOurWriter) {
  const std::string folder = "data/profiles/h200/";
  const std::set<std::string> files = FilesBelow(folder);
  EXPECT_FALSE(files.empty());
  for (const std::string& file : files) {
    ModelProfile profile;
    const auto text = ReadFile(folder + file);
    ASSERT_TRUE(text.ok()) << text.status();
    const absl::Status read = ParseTextProto(*text, file, &profile);
    ASSERT_TRUE(read.ok()) << read;
    EXPECT_TRUE(*text == ProfileText(profile)) << file;
  }
}

TEST(CheckedInInputsTest, Clusters) {
  const std::set<std::string> files = FilesBelow(kClusters);
  for (const char* device : {"a100", "h100", "h200"}) {
    for (const char* nodes : {"1", "2", "4", "8"}) {
      EXPECT_EQ(files.count(std::string(device) + "_8x" + nodes + ".textproto"), 1u);
    }
  }
  bool heterogeneous_devices = false;
  for (const std::string& file : files) {
    ClusterSpec cluster;
    const absl::Status read = ReadTextProto(kClusters + file, &cluster);
    ASSERT_TRUE(read.ok()) << read;
    EXPECT_EQ(cluster.name() + ".textproto", file);
    EXPECT_FALSE(cluster.provenance().empty()) << file;
    const auto cost = CostModel::Create(UniformProfile(), cluster);
    EXPECT_TRUE(cost.ok()) << file << ": " << cost.status();
    heterogeneous_devices |= cluster.device_classes_size() > 0;
  }
  EXPECT_TRUE(heterogeneous_devices);
}

}  // namespace
}  // namespace dpipe
