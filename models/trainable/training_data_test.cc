#include "models/trainable/training_data.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "data/images/image_encode.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::models {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class TrainingDataTest : public testing::Test {
 protected:
  TrainingDataTest() {
    options_.folder = scratch_.path() + "/data";
    loading_.image_size = 8;
    loading_.global_batch = 4;
  }
  void WriteImages(const std::string& folder, int count) {
    ASSERT_TRUE(MakeFolder(folder).ok());
    for (int i = 0; i < count; ++i) {
      const std::string stem = absl::StrCat(folder, "/", i);
      ASSERT_TRUE(WriteFileAtomically(stem + ".png", EncodePng(Image(8, 8)).value()).ok());
      ASSERT_TRUE(WriteFileAtomically(stem + ".txt", absl::StrCat("caption ", i)).ok());
    }
  }
  std::string Error() {
    return std::string(OpenTrainingData(options_, loading_).status().message());
  }

  const ScratchFolder scratch_;
  TrainingDataOptions options_;
  DataLoaderOptions loading_;
};

TEST_F(TrainingDataTest, NoNotesWithoutProblems) {
  WriteImages(options_.folder, 4);
  const auto data = OpenTrainingData(options_, loading_);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(data->notes, IsEmpty());
}

TEST_F(TrainingDataTest, ImagesThatRepeatWithinAStepAreNoted) {
  WriteImages(options_.folder, 3);
  const auto data = OpenTrainingData(options_, loading_);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(data->notes, ElementsAre("there are 3 images for a global batch of 4: images repeat "
                                       "within every step"));
}

TEST_F(TrainingDataTest, NotesNameTheirDataSet) {
  WriteImages(options_.folder, 4);
  ASSERT_TRUE(WriteFileAtomically(options_.folder + "/9.png", EncodePng(Image(8, 8)).value()).ok());
  EXPECT_THAT(Error(), HasSubstr("9.png (no 9.txt)"));
  options_.default_caption = "sks";
  const auto data = OpenTrainingData(options_, loading_);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(data->notes,
              Contains(options_.folder + ": 1 of the 5 images have no caption and get \"sks\""));
}

TEST_F(TrainingDataTest, SmallImagesAreLeftOutOfBothParts) {
  WriteImages(options_.folder, 4);
  options_.held_out_folder = scratch_.path() + "/others";
  WriteImages(options_.held_out_folder, 2);
  for (const std::string& folder : {options_.folder, options_.held_out_folder}) {
    ASSERT_TRUE(WriteFileAtomically(folder + "/1.png", EncodePng(Image(9, 5)).value()).ok());
  }
  options_.min_side = 6;
  loading_.global_batch = 2;
  const auto data = OpenTrainingData(options_, loading_);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->training->dataset().size(), 3);
  EXPECT_EQ(data->held_out->dataset().size(), 1);
  EXPECT_THAT(
      data->notes,
      ElementsAre("1 of the 4 images has a side below --data.min_side=6: 1.png of 9 x 5; left out",
                  "1 of the 2 images has a side below --data.min_side=6: 1.png of 9 x 5; left "
                  "out"));
}

TEST_F(TrainingDataTest, SizesAreSavedIfFilesMayBeWritten) {
  WriteImages(options_.folder, 4);
  loading_.buckets = {{8, 8}, {16, 8}};
  options_.sizes_path = scratch_.path() + "/sizes";
  options_.keeps_sizes = false;
  ASSERT_TRUE(OpenTrainingData(options_, loading_).ok());
  EXPECT_FALSE(std::filesystem::exists(options_.sizes_path));
  options_.keeps_sizes = true;
  ASSERT_TRUE(OpenTrainingData(options_, loading_).ok());
  EXPECT_TRUE(std::filesystem::exists(options_.sizes_path));
  options_.sizes_path = options_.folder + "/0.png/sizes";
  const auto data = OpenTrainingData(options_, loading_);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(data->notes, ElementsAre(HasSubstr("image sizes are not saved: ")));
}

TEST_F(TrainingDataTest, TheCallerChoosesTheFirstStepOfTheOrder) {
  WriteImages(options_.folder, 8);
  options_.held_out_share = 0.3;
  std::string asked;
  options_.first_step_of = [&](const SampleSource& data) -> absl::StatusOr<int64_t> {
    asked = data.fingerprint();
    return 12;
  };
  const auto data = OpenTrainingData(options_, loading_);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->training->order().first_step(), 12);
  EXPECT_EQ(data->held_out->order().first_step(), 0);
  EXPECT_EQ(asked, data->training->dataset().fingerprint());
  options_.first_step_of = [](const SampleSource&) -> absl::StatusOr<int64_t> {
    return absl::FailedPreconditionError("another data set");
  };
  EXPECT_EQ(Error(), "another data set");
}

TEST_F(TrainingDataTest, TrainingSamplesAreNotHeldOut) {
  WriteImages(options_.folder, 4);
  options_.held_out_folder = options_.folder + "/../data";
  EXPECT_THAT(Error(), HasSubstr("4 of its 4 samples are used for training"));
  options_.held_out_folder = scratch_.path() + "/copy";
  std::filesystem::copy(options_.folder, options_.held_out_folder);
  EXPECT_THAT(Error(), HasSubstr("both have the same 4 samples"));
  // A sub-folder of the training data.
  options_.held_out_folder = options_.folder + "/sub";
  WriteImages(options_.held_out_folder, 2);
  EXPECT_THAT(Error(), HasSubstr("2 of its 2 samples are used for training; the first is " +
                                 options_.held_out_folder + "/0.png"));
  options_.held_out_folder = scratch_.path() + "/others";
  WriteImages(options_.held_out_folder, 2);
  EXPECT_EQ(Error(), "");
}

}  // namespace
}  // namespace dpipe::models
