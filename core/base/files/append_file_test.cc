#include "core/base/files/append_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>

#include "core/base/files/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string PathOf(const char* name) { return ::testing::TempDir() + "/" + name; }

// While one exists, files of this process cannot grow beyond `bytes`, so that writes are cut short
// as on a full disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &old_), 0);
    rlimit small = old_;
    small.rlim_cur = bytes;
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  }
  ~FullDisk() { EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &old_), 0); }

 private:
  rlimit old_;
};

TEST(AppendFileTest, IsReadableAtOnceAndGrows) {
  const std::string path = PathOf("grows");
  {
    auto file = AppendFile::Open(path, AppendFile::Start::kEmpty);
    ASSERT_TRUE(file.ok()) << file.status();
    (*file)->Append("one\n");
    EXPECT_EQ(*ReadFile(path), "one\n");
  }
  auto file = AppendFile::Open(path, AppendFile::Start::kKeep);
  ASSERT_TRUE(file.ok()) << file.status();
  (*file)->Append("two\n");
  EXPECT_TRUE((*file)->Flush().ok());
  EXPECT_EQ(*ReadFile(path), "one\ntwo\n");
  EXPECT_TRUE(AppendFile::Open(path, AppendFile::Start::kEmpty).ok());
  EXPECT_EQ(*ReadFile(path), "");
}

TEST(AppendFileTest, NothingIsLostIfTheDiskIsFullForAWhile) {
  const std::string path = PathOf("full_for_a_while");
  auto file = AppendFile::Open(path, AppendFile::Start::kEmpty);
  ASSERT_TRUE(file.ok()) << file.status();
  (*file)->Append("first\n");
  {
    const FullDisk full(8);
    (*file)->Append("second\n");
    (*file)->Append("third\n");
    const absl::Status status = (*file)->Flush();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("cannot write the log " + path),
                                                     HasSubstr("11 B not yet written")));
    EXPECT_EQ(*ReadFile(path), "first\nse");
  }
  (*file)->Append("fourth\n");
  EXPECT_EQ(*ReadFile(path), "first\nsecond\nthird\nfourth\n");
  EXPECT_TRUE((*file)->Flush().ok());
}

TEST(AppendFileTest, BacklogIsBoundedAndDroppedRecordsAreCounted) {
  const std::string path = PathOf("bounded");
  auto file = AppendFile::Open(path, AppendFile::Start::kEmpty, /*max_pending_bytes=*/10);
  ASSERT_TRUE(file.ok()) << file.status();
  {
    const FullDisk full(0);
    for (const char* record : {"1234\n", "5678\n", "dropped\n", "dropped\n"}) {
      (*file)->Append(record);
    }
    EXPECT_EQ((*file)->Flush().code(), absl::StatusCode::kUnavailable);
  }
  const absl::Status status = (*file)->Flush();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("is missing 2 records"));
  EXPECT_TRUE((*file)->Flush().ok()) << "reported once";
  (*file)->Append("more than ten bytes\n");
  EXPECT_EQ(*ReadFile(path), "1234\n5678\nmore than ten bytes\n");
}

TEST(AppendFileTest, NamesTheFileThatCannotBeWritten) {
  const auto folder = AppendFile::Open(::testing::TempDir(), AppendFile::Start::kKeep);
  EXPECT_THAT(std::string(folder.status().message()), HasSubstr(::testing::TempDir()));
  AppendFile full("a full device", ::open("/dev/full", O_WRONLY));
  full.Append("x");
  EXPECT_THAT(std::string(full.Flush().message()), HasSubstr("a full device"));
}

}  // namespace
}  // namespace dpipe
