#include "core/base/files/durable_file.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>

#include "core/base/files/crc32c.h"
#include "core/base/files/file.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

std::string InTestFolder(const std::string& name) { return ::testing::TempDir() + "/" + name; }

TEST(DurableFileTest, ContainsWhatWasAppended) {
  const std::string path = InTestFolder("appended");
  const std::string big(700'000, 'x');  // several pieces
  auto file = DurableFile::Create(path);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Append("head ").ok());
  ASSERT_TRUE((*file)->Append("").ok());
  ASSERT_TRUE((*file)->Append(big).ok());
  ASSERT_TRUE((*file)->Finish().ok());
  EXPECT_EQ(*ReadFile(path), "head " + big);
  EXPECT_EQ((*file)->digest().size, 700'005);
  EXPECT_EQ((*file)->digest().crc32c, Crc32c("head " + big));
  const auto read = DigestFile(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, (*file)->digest());
  EXPECT_TRUE(SyncFolder(::testing::TempDir()).ok());
}

TEST(DurableFileTest, LinkWithItsNameIsReplaced) {
  const std::string victim = InTestFolder("victim"), path = InTestFolder("planted_link");
  ASSERT_TRUE(WriteFileAtomically(victim, "precious").ok());
  unlink(path.c_str());
  ASSERT_EQ(symlink(victim.c_str(), path.c_str()), 0);
  auto file = DurableFile::Create(path);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Append("new").ok());
  ASSERT_TRUE((*file)->Finish().ok());
  EXPECT_EQ(*ReadFile(victim), "precious");
  EXPECT_EQ(*ReadFile(path), "new");
}

TEST(DurableFileTest, ErrorsNameTheFile) {
  EXPECT_NE(DurableFile::Create(InTestFolder("no/such/folder/f"))
                .status()
                .message()
                .find("no/such/folder/f: No such file"),
            std::string::npos);
  EXPECT_EQ(DigestFile(InTestFolder("missing")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(SyncFolder(InTestFolder("missing")).ok());
}

// The system's limit on file sizes cuts a write short as a full disk does.
TEST(DurableFileTest, AFullDiskIsNamed) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  rlimit small = old;
  small.rlim_cur = 300'000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  auto file = DurableFile::Create(InTestFolder("full"));
  ASSERT_TRUE(file.ok());
  const absl::Status status = (*file)->Append(std::string(1'000'000, 'x'));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_TRUE(IsDiskFull(status)) << status;
  EXPECT_NE(status.message().find("full: File too large"), std::string::npos) << status;
}

}  // namespace
}  // namespace dpipe
