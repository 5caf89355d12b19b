#include "tools/cuda/cuda_libraries.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Whether this machine has them or not.
TEST(CudaLibrariesTest, EachHasItsVersionAndFileOrAReason) {
  const std::vector<std::string> lines = DescribeCudaLibraries();
  const struct {
    const char *name, *file;
  } libraries[] = {
      {"cuBLASLt ", "libcublasLt.so.13"}, {"cuDNN ", "libcudnn.so.9"}, {"NCCL ", "libnccl.so.2"}};
  ASSERT_GE(lines.size(), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(lines[i], AnyOf(StartsWith(libraries[i].name), HasSubstr(libraries[i].file)));
    if (!absl::StartsWith(lines[i], libraries[i].name)) continue;
    EXPECT_THAT(lines, Contains(AllOf(StartsWith("/"), HasSubstr(libraries[i].file))));
  }
}

}  // namespace
}  // namespace dpipe
