#include "core/cuda/loaded_libraries.h"

#include <dlfcn.h>

#include <cmath>
#include <string>

#include "core/base/files/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::IsEmpty;

TEST(LoadedLibrariesTest, ListsEachCudaLibraryOnce) {
  EXPECT_THAT(internal::CudaLibrariesOf(
                  "5600-5700 r--p 00000000 08:01 1 /opt/bin/libcuda.program/train\n"
                  "7f00-7f10 r--p 00000000 08:01 2                  /opt/nvidia/lib/libcudnn.so.9\n"
                  "7f10-7f20 r-xp 00010000 08:01 2                  /opt/nvidia/lib/libcudnn.so.9\n"
                  "7f20-7f30 rw-p 00000000 00:00 0\n"
                  "7f30-7f40 r-xp 00000000 08:01 3 /opt/my libraries/libcublasLt.so.13\n"
                  "7f40-7f50 r-xp 00000000 08:01 4 /usr/lib/libstdc++.so.6\n"
                  "7f50-7f60 rw-p 00000000 00:00 0 [stack]\n"),
              ElementsAre("/opt/my libraries/libcublasLt.so.13", "/opt/nvidia/lib/libcudnn.so.9"));
}

// Opens an arbitrary library under a name like those of CUDA's libraries.
TEST(LoadedLibrariesTest, ListsLibraryOnceOpened) {
  Dl_info math = {};
  double (*const function)(double) = std::cos;
  ASSERT_NE(dladdr(reinterpret_cast<void*>(function), &math), 0);
  const std::string path = ::testing::TempDir() + "/libnvidia-test.so.1";
  ASSERT_TRUE(CopyFileAtomically(math.dli_fname, path).ok());
  EXPECT_THAT(LoadedCudaLibraries(), IsEmpty());
  ASSERT_NE(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL), nullptr) << dlerror();
  EXPECT_THAT(LoadedCudaLibraries(), ElementsAre(EndsWith("/libnvidia-test.so.1")));
}

}  // namespace
}  // namespace dpipe
