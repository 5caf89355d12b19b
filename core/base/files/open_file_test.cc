#include "core/base/files/open_file.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class OpenFileTest : public ::testing::Test {
 protected:
  std::string File(const std::string& name) const { return folder_.File(name); }

  // In memory, because socket names must be short.
  const ScratchFolder folder_{ScratchFolder::Place::kMemory};
};

TEST_F(OpenFileTest, RegularFilesAndLinksToThemOpen) {
  ASSERT_TRUE(WriteFileAtomically(File("a"), "x").ok());
  fs::create_symlink("a", File("link"));
  EXPECT_TRUE(OpenRegularFile(File("a")).ok());
  EXPECT_TRUE(OpenRegularFile(File("link")).ok());
  EXPECT_EQ(OpenRegularFile(File("b")).status().code(), absl::StatusCode::kNotFound);
}

// None of these calls may block.
TEST_F(OpenFileTest, OtherKindsOfFilesAreNamed) {
  ASSERT_EQ(mkfifo(File("fifo").c_str(), 0600), 0);
  const OwnedFd socket_fd(socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  ASSERT_LT(File("socket").size(), sizeof(address.sun_path));
  File("socket").copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(socket_fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const std::pair<std::string, std::string> cases[] = {
      {folder_.path(), "is a folder, not a file"},
      {File("fifo"), "is a named pipe, not a regular file"},
      {File("socket"), "is a socket, not a regular file"},
      {"/dev/null", "is a device, not a regular file"}};
  for (const auto& [path, message] : cases) {
    for (const absl::Status& status :
         {OpenRegularFile(path).status(), OpenFileOrPipe(path).status()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << path;
      EXPECT_EQ(status.message(), absl::StrCat(path, " ", message));
    }
  }
}

TEST_F(OpenFileTest, NewFilesDoNotReplaceExistingOnes) {
  ASSERT_TRUE(CreateNewFile(File("a")).ok());
  EXPECT_THAT(std::string(CreateNewFile(File("a")).status().message()), HasSubstr("File exists"));
  fs::create_symlink("nowhere", File("link"));
  EXPECT_FALSE(CreateNewFile(File("link")).ok());
  EXPECT_FALSE(fs::exists(File("nowhere")));
}

TEST_F(OpenFileTest, TemporaryNamesCannotBeGuessed) {
  std::set<std::string> names;
  for (int i = 0; i < 100; ++i) {
    const auto file = CreateTemporaryFile(File("a"));
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_THAT(file->path, MatchesRegex(".*/a\\.tmp\\.[0-9a-f]*"));
    EXPECT_EQ(file->path.size(), File("a.tmp.").size() + 16);
    EXPECT_TRUE(names.insert(file->path).second);
  }
}

TEST_F(OpenFileTest, AppendingFollowsOwnLinks) {
  ASSERT_TRUE(WriteFileAtomically(File("a"), "x").ok());
  fs::create_symlink("a", File("link"));
  const auto fd = OpenToAppend(File("link"), /*truncate=*/false);
  ASSERT_TRUE(fd.ok()) << fd.status();
  ASSERT_EQ(write(fd->get(), "y", 1), 1);
  EXPECT_EQ(ReadFile(File("a")).value(), "xy");
  EXPECT_TRUE(OpenToAppend(File("link"), /*truncate=*/true).ok());
  EXPECT_EQ(ReadFile(File("a")).value(), "");
  EXPECT_TRUE(OpenToAppend("/dev/stderr", /*truncate=*/false).ok());
}

TEST_F(OpenFileTest, AppendingDoesNotFollowLinksOfOthers) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make links of another user";
  ASSERT_TRUE(WriteFileAtomically(File("victim"), "precious").ok());
  fs::create_symlink("victim", File("link"));
  ASSERT_EQ(lchown(File("link").c_str(), 12345, 12345), 0);
  EXPECT_THAT(std::string(OpenToAppend(File("link"), /*truncate=*/true).status().message()),
              HasSubstr("is a link created by another user; remove it"));
  EXPECT_EQ(ReadFile(File("victim")).value(), "precious");
}

TEST_F(OpenFileTest, AFifoWithoutAReaderCannotBeAppendedTo) {
  ASSERT_EQ(mkfifo(File("fifo").c_str(), 0600), 0);
  EXPECT_FALSE(OpenToAppend(File("fifo"), /*truncate=*/false).ok());
}

TEST_F(OpenFileTest, OwnFoldersAreNeitherLinksNorFiles) {
  EXPECT_TRUE(MakeOwnFolder(File("a")).ok());
  EXPECT_TRUE(MakeOwnFolder(File("a")).ok());
  fs::create_symlink("a", File("link"));
  EXPECT_THAT(std::string(MakeOwnFolder(File("link")).message()), HasSubstr("there is a link"));
  ASSERT_TRUE(WriteFileAtomically(File("file"), "").ok());
  EXPECT_THAT(std::string(MakeOwnFolder(File("file")).message()), HasSubstr("there is a file"));
  if (geteuid() != 0) return;
  ASSERT_EQ(chown(File("a").c_str(), 12345, 12345), 0);
  EXPECT_THAT(std::string(MakeOwnFolder(File("a")).message()),
              HasSubstr("there is a folder of another user"));
}

TEST_F(OpenFileTest, FullDiskIsNotOutOfMemory) {
  for (const int error : {ENOSPC, EDQUOT, EFBIG}) {
    EXPECT_TRUE(IsDiskFull(FileError("cannot write", File("a"), error))) << error;
  }
  EXPECT_FALSE(IsDiskFull(FileError("cannot write", File("a"), EIO)));
  EXPECT_EQ(FileError("cannot write", "/x", EIO).message(), "cannot write /x: Input/output error");
}

}  // namespace
}  // namespace dpipe
