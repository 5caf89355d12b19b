#include "data/folders/folder_listing.h"

#include <sys/stat.h>

#include <filesystem>

#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(FolderListingTest, ListsSubFoldersButNothingHidden) {
  const ScratchFolder scratch;
  const std::string& folder = scratch.path();
  for (const char* file :
       {"/b.png", "/a/2.png", "/a/1/x.png", "/a.png", "/.DS_Store", "/a/._2.png", "/.git/config"}) {
    std::filesystem::create_directories(std::filesystem::path(folder + file).parent_path());
    ASSERT_TRUE(WriteFileAtomically(folder + file, "x").ok());
  }
  std::filesystem::create_directory_symlink(folder, folder + "/a/circle");
  std::filesystem::create_symlink(folder + "/b.png", folder + "/link.png");
  std::filesystem::create_symlink(folder + "/nothing", folder + "/broken.png");
  ASSERT_EQ(mkfifo((folder + "/pipe.png").c_str(), 0600), 0);
  std::filesystem::create_symlink(folder + "/pipe.png", folder + "/link_to_pipe.png");
  std::filesystem::create_symlink("/dev/zero", folder + "/a/zero.txt");
  const auto listing = ListFolder(folder);
  ASSERT_TRUE(listing.ok()) << listing.status();
  EXPECT_THAT(listing->files,
              ElementsAre("a.png", "a/1/x.png", "a/2.png", "b.png", "broken.png", "link.png"));
  EXPECT_THAT(listing->special, ElementsAre("a/zero.txt", "link_to_pipe.png", "pipe.png"));
  EXPECT_EQ(listing->num_hidden, 3);
  EXPECT_EQ(listing->num_linked_folders, 1);
  EXPECT_TRUE(listing->Contains("a/2.png"));
  EXPECT_FALSE(listing->Contains("2.png"));
}

TEST(FolderListingTest, ImagesAreKnownByTheirNames) {
  for (const char* name : {"a.png", "a.JPG", "x/a.b.jpeg", "a.webp"}) {
    EXPECT_TRUE(IsImageName(name)) << name;
  }
  for (const char* name : {"a.cond.png", "a.Conditioning.PNG", "a.gif", "png", "a.png.txt"}) {
    EXPECT_FALSE(IsImageName(name)) << name;
  }
}

TEST(FolderListingTest, NamesWhatCannotBeListed) {
  EXPECT_THAT(std::string(ListFolder("/no/such").status().message()),
              HasSubstr("cannot list /no/such"));
}

}  // namespace
}  // namespace dpipe
