#include "bench/comparison/describe_run.h"

#include <cstdlib>
#include <string>

#include "core/base/files/file.h"
#include "data/fingerprint.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::bench {
namespace {

// Each process determines its identity once, so this must be the program's only test.
TEST(DescribeRunTest, BundledProgramsReadTheirFileAndRevision) {
  const std::string path = ::testing::TempDir() + "/program";
  ASSERT_TRUE(WriteFileAtomically(path, "instructions").ok());
  ASSERT_EQ(setenv("DPIPE_PROGRAM_FILE", path.c_str(), /*overwrite=*/1), 0);
  ASSERT_EQ(setenv("DPIPE_REVISION", "0123456789ab-dirty", /*overwrite=*/1), 0);
  CaseResult results;
  DescribeRun(&results);
  EXPECT_EQ(results.versions().at("program"),
            Fingerprint().Add("instructions").ToString().substr(0, 16));
  EXPECT_EQ(results.versions().at("revision"), "0123456789ab-dirty");
}

}  // namespace
}  // namespace dpipe::bench
