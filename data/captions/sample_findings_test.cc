#include "data/captions/sample_findings.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {

namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(SampleFindingsTest, EachSampleCountsOnceAndInOrder) {
  SampleFindings findings;
  const auto name_of = [](int32_t index) { return std::to_string(index) + ".png"; };
  EXPECT_THAT(findings.Describe(name_of), IsEmpty());
  for (const int32_t index : {7, 2, 7, 30, 4, 5, 6, 2}) {
    findings.Add(SampleFinding::kTransparent, index);
  }
  findings.Add(SampleFinding::kNotUtf8, 0);
  EXPECT_THAT(findings.Describe(name_of),
              ElementsAre("6 images have transparent pixels, composited on white: 2.png, 4.png, "
                          "5.png, 6.png, 7.png and 1 more",
                          "1 caption is not UTF-8, and invalid bytes were replaced by U+FFFD; save "
                          "as UTF-8: 0.png"));
}

}  // namespace

}  // namespace dpipe
