#include "bench/comparison/code_identity.h"

#include <cstdlib>
#include <string>

#include "core/base/files/file.h"
#include "data/fingerprint.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::bench {
namespace {

// Each process determines its identity once, so this must be the program's only test.
TEST(CodeIdentityTest, BundledProgramsReadTheirFileAndRevision) {
  const std::string path = ::testing::TempDir() + "/program";
  ASSERT_TRUE(WriteFileAtomically(path, "instructions").ok());
  ASSERT_EQ(setenv("DPIPE_PROGRAM_FILE", path.c_str(), /*overwrite=*/1), 0);
  ASSERT_EQ(setenv("DPIPE_REVISION", "0123456789ab-dirty", /*overwrite=*/1), 0);
  report::BenchResults results;
  DescribeRun(&results);
  EXPECT_EQ(results.versions["program"],
            Fingerprint().Add("instructions").ToString().substr(0, 16));
  EXPECT_EQ(results.versions["revision"], "0123456789ab-dirty");
}

}  // namespace
}  // namespace dpipe::bench
