#include "models/cascade/class_labels.h"

#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "gtest/gtest.h"

namespace dpipe::models {
namespace {

TEST(ClassLabelsTest, PrefersTheFirstAndLongestName) {
  const auto labels = ClassLabels::Create({"red", "red circle", "blue star", "a"}, 5);
  ASSERT_TRUE(labels.ok()) << labels.status();
  EXPECT_EQ(*labels->LabelOf("a large red circle left of a blue star"), 3);
  EXPECT_EQ(*labels->LabelOf("large red circle left of blue star"), 1);
  EXPECT_EQ(*labels->LabelOf("the blue star above some red circle"), 2);
  EXPECT_EQ(*labels->LabelOf("red circles"), 0);
  EXPECT_EQ(*labels->LabelOf(""), 4);
  EXPECT_EQ(labels->LabelOf("a green one").ok(), true);
  EXPECT_EQ(labels->LabelOf("green").status().message(),
            "caption 'green' contains none of the 4 class names and is not a class number");
}

TEST(ClassLabelsTest, NamesTakePrecedenceOverNumbers) {
  const auto labels = ClassLabels::Create({"cat", "dog", "0"}, 4);
  ASSERT_TRUE(labels.ok()) << labels.status();
  EXPECT_EQ(*labels->LabelOf("1"), 1);
  EXPECT_EQ(*labels->LabelOf("0"), 2);
  EXPECT_EQ(*labels->LabelOf("a dog of 2"), 1);
  // Row 3 is "no class", which no number can select.
  for (const char* bad : {"3", "-1", "1 or 2"}) EXPECT_FALSE(labels->LabelOf(bad).ok()) << bad;
}

TEST(ClassLabelsTest, NumbersWithoutNames) {
  const auto labels = ClassLabels::Create({}, 10);
  ASSERT_TRUE(labels.ok());
  EXPECT_FALSE(labels->has_no_class());
  EXPECT_EQ(*labels->LabelOf("7"), 7);
  for (const char* bad : {"10", "-1", "", "cat"}) EXPECT_FALSE(labels->LabelOf(bad).ok()) << bad;
}

TEST(ClassLabelsTest, FilesFromWindowsAreRead) {
  const ScratchFolder scratch;
  const std::string path = scratch.File("classes.txt");
  ASSERT_TRUE(WriteFileAtomically(path,
                                  "\xef\xbb\xbf"
                                  "cat\r\ndog\r\n\r\n")
                  .ok());
  const auto labels = ClassLabels::Read(path, 2);
  ASSERT_TRUE(labels.ok()) << labels.status();
  EXPECT_EQ(*labels->LabelOf("a cat"), 0);
  EXPECT_EQ(*labels->LabelOf("dog"), 1);
}

TEST(ClassLabelsTest, RowsMustMatchTheClasses) {
  EXPECT_EQ(ClassLabels::Create({"a", "b"}, 4).status().message(),
            "2 classes, but the model has 4 rows for them; expected 2 or 3");
}

}  // namespace
}  // namespace dpipe::models
