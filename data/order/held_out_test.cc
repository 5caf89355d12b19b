#include "data/order/held_out.h"

#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/files/scratch_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using testing::HasSubstr;

// Samples with these file names in a folder.
class NamedSamples : public SampleSource {
 public:
  NamedSamples(std::string folder, std::vector<std::string> files)
      : folder_(std::move(folder)), files_(std::move(files)) {}

  int32_t size() const override { return static_cast<int32_t>(files_.size()); }
  const std::string& name() const override { return folder_; }
  std::string image_path(int32_t i) const override { return absl::StrCat(folder_, "/", files_[i]); }
  bool has_condition(int32_t) const override { return false; }
  std::string fingerprint() const override { return absl::StrJoin(files_, " "); }
  absl::StatusOr<std::vector<std::string>> LoadCaptions(int32_t i) const override {
    return std::vector<std::string>{files_[i]};
  }
  absl::StatusOr<Image> LoadImage(int32_t) const override { return Image(1, 1); }
  absl::StatusOr<ImageSize> LoadImageSize(int32_t) const override { return ImageSize{1, 1}; }
  absl::StatusOr<std::string> LoadIdentity(int32_t i) const override { return image_path(i); }
  absl::StatusOr<Image> LoadCondition(int32_t) const override { return absl::NotFoundError(""); }

 private:
  const std::string folder_;
  const std::vector<std::string> files_;
};

std::vector<std::string> Files(int first, int last) {
  std::vector<std::string> files;
  for (int i = first; i < last; ++i) files.push_back(absl::StrCat(i, ".png"));
  return files;
}

std::set<std::string> Captions(const SampleSource& source) {
  std::set<std::string> captions;
  for (int32_t i = 0; i < source.size(); ++i) captions.insert(source.LoadCaptions(i)->front());
  return captions;
}

std::set<std::string> HeldOutOf(const std::string& folder, const std::vector<std::string>& files) {
  auto divided = HoldOut(std::make_unique<NamedSamples>(folder, files), 0.2);
  EXPECT_TRUE(divided.ok()) << divided.status();
  return Captions(*divided->held_out);
}

TEST(HeldOutTest, EverySampleIsOnOneSide) {
  auto divided = HoldOut(std::make_unique<NamedSamples>("/a", Files(0, 5000)), 0.2);
  ASSERT_TRUE(divided.ok()) << divided.status();
  std::set<std::string> all = Captions(*divided->training);
  const std::set<std::string> held_out = Captions(*divided->held_out);
  all.insert(held_out.begin(), held_out.end());
  EXPECT_EQ(all.size(), 5000u);
  EXPECT_EQ(divided->training->size() + divided->held_out->size(), 5000);
  // Five standard deviations of 5,000 draws with probability 0.2.
  EXPECT_NEAR(divided->held_out->size(), 1000, 5 * 28.3);
}

TEST(HeldOutTest, FilesNeverMoveFromOneSideToTheOther) {
  const std::set<std::string> few = HeldOutOf("/a", Files(0, 300));
  const std::set<std::string> more = HeldOutOf("/elsewhere/b", Files(0, 600));
  for (const std::string& file : Files(0, 300)) {
    EXPECT_EQ(few.count(file), more.count(file)) << file;
  }
}

// Changing the hash would change how existing data sets are divided.
TEST(HeldOutTest, TheRankOfANameIsFixed) {
  const NamedSamples samples("/data/cats", {"7.png", "sub/7.png"});
  EXPECT_DOUBLE_EQ(HeldOutRank(samples, 0), 0.5269892879960508);
  const NamedSamples moved("/cats", {"7.png"});
  EXPECT_EQ(HeldOutRank(samples, 0), HeldOutRank(moved, 0));
  EXPECT_NE(HeldOutRank(samples, 0), HeldOutRank(samples, 1));
}

TEST(HeldOutTest, ImpossibleSharesAreNamed) {
  const auto error = [](int count, double share) {
    return std::string(
        HoldOut(std::make_unique<NamedSamples>("/a", Files(0, count)), share).status().message());
  };
  EXPECT_THAT(error(10, 1.5), ::testing::HasSubstr("share is 1.5"));
  EXPECT_THAT(error(1, 0.5), ::testing::HasSubstr("of the 1 samples in /a leaves"));
}

TEST(HeldOutTest, PartsHaveTheirOwnFingerprints) {
  const auto divide = [](const std::string& folder, int last) {
    return *HoldOut(std::make_unique<NamedSamples>(folder, Files(0, last)), 0.3);
  };
  const DividedSource divided = divide("/data", 40);
  EXPECT_NE(divided.training->fingerprint(), divided.held_out->fingerprint());
  EXPECT_EQ(divided.training->fingerprint(), divide("/moved", 40).training->fingerprint());
  EXPECT_NE(divided.training->fingerprint(), divide("/data", 41).training->fingerprint());
}

TEST(HeldOutTest, TrainedOnSamplesAreNotHeldOut) {
  const ScratchFolder scratch;
  const std::string& folder = scratch.path();
  std::filesystem::create_directories(folder + "/all/sub");
  std::filesystem::create_directory_symlink(folder + "/all", folder + "/link");
  const auto error = [](const NamedSamples& training, const NamedSamples& held_out) {
    return std::string(CheckNothingShared(training, held_out).message());
  };
  const NamedSamples training(folder + "/all", {"1.png", "2.png", "sub/3.png"});
  EXPECT_EQ(error(training, NamedSamples(folder + "/all/sub", {"1.png", "4.png"})), "");
  EXPECT_THAT(error(training, NamedSamples(folder + "/link/../all", {"0.png", "2.png"})),
              HasSubstr("1 of its 2 samples are used for training; the first is " + folder +
                        "/link/../all/2.png"));
  EXPECT_THAT(error(training, NamedSamples(folder + "/link/sub", {"3.png"})),
              HasSubstr("--evaluation.data=" + folder + "/link/sub is not held out of --data=" +
                        folder + "/all: 1 of its 1 samples are used for training"));
  // A copy in another folder.
  EXPECT_THAT(error(training, NamedSamples("/copy", {"1.png", "2.png", "sub/3.png"})),
              HasSubstr("both have the same 3 samples"));
}

}  // namespace
}  // namespace dpipe
