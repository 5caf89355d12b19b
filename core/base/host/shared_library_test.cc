#include "core/base/host/shared_library.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(SharedLibraryTest, OpensTheFirstThatExistsAndBindsItsFunctions) {
  const auto library = SharedLibrary::Open({"libno-such.so.1", "libm.so.6"}, "cosines need it");
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_EQ(library->name(), "libm.so.6");
  double (*cosine)(double) = nullptr;
  ASSERT_TRUE(library->Bind("cos", &cosine).ok());
  EXPECT_EQ(cosine(0.0), 1.0);
}

TEST(SharedLibraryTest, MissingLibraryIsNamedWithWhatNeedsIt) {
  const auto library = SharedLibrary::Open({"libno-such.so.2", "libno-such.so.1"}, "ranks need it");
  EXPECT_EQ(library.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(library.status().message()),
              AllOf(HasSubstr("libno-such.so.2 or libno-such.so.1"), HasSubstr("No such file"),
                    HasSubstr("ranks need it")));
}

TEST(SharedLibraryTest, MissingSymbolIsNamedWithItsLibrary) {
  const auto library = SharedLibrary::Open({"libm.so.6"}, "");
  ASSERT_TRUE(library.ok());
  EXPECT_EQ(library->Find("no_such_function").status().message(),
            "libm.so.6 has no symbol no_such_function; it may be too old");
}

}  // namespace
}  // namespace dpipe
