#include "data/tars/tar_dataset.h"

#include <sys/stat.h>
#include <unistd.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "data/images/image_encode.h"
#include "data/loader.h"
#include "data/open_samples.h"
#include "data/testing/tar_for_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using testing::HasSubstr;

std::string Png(int width) { return EncodePng(Image(width, 8)).value(); }

class TarDatasetTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& content) {
    ASSERT_TRUE(WriteFileAtomically(absl::StrCat(folder_, "/", name), content).ok());
  }
  std::string ErrorOf(const std::string& tar) {
    Write("bad.tar", tar);
    const auto dataset = TarDataset::Open(folder_ + "/bad.tar");
    return dataset.ok() ? "no error" : std::string(dataset.status().message());
  }
  const ScratchFolder scratch_;
  const std::string& folder_ = scratch_.path();
};

TEST_F(TarDatasetTest, GroupsMembersByKey) {
  Write("s-00.tar", MakeTar({{"000.jpg", EncodeJpeg(Image(9, 8)).value()},
                             {"000.txt", " a cat\n"},
                             {"readme.md", "not a sample"},
                             {"sub/001.cond.png", Png(3)},
                             {"sub/001.json", "{\"caption\": \"a dog\", \"width\": 10}"},
                             {"sub/001.PNG", Png(10)}}));
  Write("s-01.tar", MakeTar({{"000.webp.txt", "another member"},
                             {"000.caption", "a fox"},
                             {"000.jpeg", Png(11)},
                             {"only.txt", "no image"}}));
  const auto dataset = TarDataset::Open(folder_ + "/s-{00..01}.tar");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ASSERT_EQ((*dataset)->size(), 3);
  EXPECT_EQ((*dataset)->num_shards(), 2);
  EXPECT_EQ((*dataset)->num_keys_without_image(), 1);
  EXPECT_EQ((*dataset)->LoadCaptions(0)->front(), "a cat");
  EXPECT_EQ((*dataset)->LoadCaptions(1)->front(), "a dog");
  EXPECT_EQ((*dataset)->LoadCaptions(2)->front(), "a fox");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ((*dataset)->LoadImage(i)->width, 9 + i);
    EXPECT_EQ((*dataset)->LoadImageSize(i)->width, 9 + i);
  }
  EXPECT_EQ((*dataset)->image_path(1), folder_ + "/s-00.tar: sub/001.png");
  EXPECT_FALSE((*dataset)->has_condition(0));
  EXPECT_EQ((*dataset)->LoadCondition(0).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ((*dataset)->LoadCondition(1)->width, 3);
  EXPECT_NE((*dataset)->LoadIdentity(0).value(), (*dataset)->LoadIdentity(1).value());
}

TEST_F(TarDatasetTest, CaptionFieldMayBeNamed) {
  Write("a.tar", MakeTar({{"0.png", Png(8)}, {"0.json", "{\"text\": \"one\", \"fr\": \"un\"}"}}));
  OpenSamplesOptions options;
  EXPECT_EQ((*OpenSamples(folder_ + "/a.tar"))->LoadCaptions(0)->front(), "one");
  options.caption_column = "fr";
  EXPECT_EQ((*OpenSamples(folder_ + "/a.tar", options))->LoadCaptions(0)->front(), "un");
  options.caption_column = "de";
  EXPECT_THAT(std::string((*OpenSamples(folder_, options))->LoadCaptions(0).status().message()),
              HasSubstr("a.tar: 0.json: no column \"de\" (--data.caption_column); it has "
                        "\"text\", \"fr\""));
}

TEST_F(TarDatasetTest, CaptionsAreCleanedAndBadEncodingsNamed) {
  Write("a.tar", MakeTar({{"0.png", Png(8)},
                          {"0.txt",
                           "\xef\xbb\xbf"
                           "caf\xe9\r\n"},
                          {"1.png", Png(8)},
                          {"1.json", "{\"caption\": \"\xef\xbb\xbf a cat \"}"},
                          {"2.png", Png(8)},
                          {"2.json", "{\"caption\": \"caf\xe9\"}"},
                          {"3.png", Png(8)},
                          {"3.caption", std::string((1 << 20) + 1, 'x')}}));
  const auto dataset = TarDataset::Open(folder_ + "/a.tar");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->LoadCaptions(0)->front(), "caf\ufffd");
  EXPECT_EQ((*dataset)->LoadCaptions(1)->front(), "a cat");
  EXPECT_THAT(std::string((*dataset)->LoadCaptions(2).status().message()),
              HasSubstr("/a.tar: 2.json: not UTF-8: byte 17 is 0xe9; save"));
  EXPECT_THAT(std::string((*dataset)->LoadCaptions(3).status().message()),
              HasSubstr("/a.tar: 3.caption: 1048577 bytes"));
}

TEST_F(TarDatasetTest, ShardsWithoutAnImageAreNamed) {
  const std::string good = MakeTar({{"0.png", Png(8)}, {"0.txt", "x"}});
  EXPECT_EQ(ErrorOf(good), "no error");
  EXPECT_THAT(ErrorOf(good.substr(0, 520)),
              HasSubstr("no JPEG, PNG or WebP in 1 tar file; " + folder_ +
                        "/bad.tar: 0.png: truncated: it has"));
  EXPECT_THAT(ErrorOf(good.substr(0, 300)), HasSubstr("/bad.tar: at byte 0 of 300: truncated"));
  EXPECT_THAT(ErrorOf("<html>"), HasSubstr("/bad.tar: not a tar archive but an HTML page"));
  EXPECT_THAT(ErrorOf(MakeTar({{"0.txt", "x"}})), HasSubstr("no JPEG, PNG or WebP in 1 tar file"));
  EXPECT_EQ(TarDataset::Open(folder_ + "/no.tar").status().code(), absl::StatusCode::kNotFound);
  ASSERT_EQ(mkfifo((folder_ + "/pipe.tar").c_str(), 0600), 0);
  for (const std::string name : {"/pipe.tar", "/*.tar"}) {
    EXPECT_THAT(std::string(OpenSamples(folder_ + name).status().message()),
                HasSubstr("/pipe.tar is a named pipe, not a regular file"));
    unlink((folder_ + "/bad.tar").c_str());
  }
}

// The intact part of each shard is read. A truncated member is a sample that cannot be loaded.
TEST_F(TarDatasetTest, DamageIsASampleThatCannotBeLoaded) {
  const std::string png = Png(8);
  const std::string good =
      MakeTar({{"0.png", png}, {"0.txt", "zero"}, {"1.png", png}, {"1.txt", "one"}});
  ASSERT_LE(png.size(), 512u);
  Write("s-0.tar", good);
  Write("s-1.tar", good.substr(0, 2560 + 10));  // inside the second image
  Write("s-2.tar", good.substr(0, 3584 + 2));   // inside its caption
  Write("s-3.tar", good.substr(0, 2048));       // between members
  Write("s-4.tar", "version https://git-lfs.github.com/spec/v1\n");
  auto dataset = TarDataset::Open(folder_ + "/s-{0..4}.tar");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ASSERT_EQ((*dataset)->size(), 9);
  EXPECT_THAT((*dataset)->notes(),
              testing::ElementsAre(HasSubstr(
                  "4 of 5 shards are damaged and read as far as possible, the first: " + folder_ +
                  "/s-1.tar: at byte 2048 of 2570: member 1.png of ")));
  const int readable[] = {0, 1, 2, 4, 6};
  for (const int i : readable) EXPECT_TRUE((*dataset)->LoadImage(i).ok()) << i;
  const auto error = [&](int i) {
    return std::string((*dataset)->LoadCaptions(i).status().message()) + "; " +
           std::string((*dataset)->LoadImage(i).status().message());
  };
  EXPECT_THAT((*dataset)->LoadImage(3).status().ToString(),
              HasSubstr("/s-1.tar: 1.png: truncated: it has "));
  EXPECT_FALSE((*dataset)->LoadImageSize(3).ok());
  EXPECT_THAT(error(5), HasSubstr("/s-2.tar: 1.txt: truncated: it has 3 bytes, but the file "
                                  "ends after 2"));
  EXPECT_THAT(error(7), HasSubstr("/s-3.tar: at byte 2048 of 2048: the file ends without"));
  EXPECT_THAT(error(8), HasSubstr("/s-4.tar: not a tar archive but a Git LFS pointer: "));
  EXPECT_EQ((*dataset)->image_path(8), folder_ + "/s-4.tar");
  // They count towards the limit of corrupt samples.
  DataLoaderOptions options;
  options.image_size = 8;
  options.global_batch = 9;
  options.prefetch_threads = 0;
  std::vector<float> pixels(9 * 8 * 8 * 3);
  for (const int max_corrupt : {4, 3}) {
    options.max_corrupt = max_corrupt;
    const auto loader =
        DataLoader::Create(TarDataset::Open(folder_ + "/s-{0..4}.tar").value(), options);
    ASSERT_TRUE(loader.ok()) << loader.status();
    EXPECT_EQ((*loader)->LoadPixels(0, {0, 9}, pixels.data()).ok(), max_corrupt == 4);
    if (max_corrupt == 4) {
      EXPECT_EQ((*loader)->Quarantine().size(), 4u);
    }
  }
}

TEST_F(TarDatasetTest, LastOfDuplicateMembersCounts) {
  Write("a.tar", MakeTar({{"0.png", Png(8)}, {"0.txt", "x"}, {"0.jpg", Png(9)}, {"0.txt", "y"}}));
  const auto dataset = TarDataset::Open(folder_ + "/a.tar");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ASSERT_EQ((*dataset)->size(), 1);
  EXPECT_EQ((*dataset)->LoadImage(0)->width, 9);
  EXPECT_EQ((*dataset)->LoadCaptions(0)->front(), "y");
  EXPECT_THAT(
      (*dataset)->notes(),
      testing::ElementsAre("2 members replaced by later ones of the same samples: 0.png, 0.txt"));
}

TEST_F(TarDatasetTest, KeysMayHaveDots) {
  Write("a.tar", MakeTar({{"x/22.05.png", Png(8)},
                          {"x/22.05.txt", "five"},
                          {"x/22.06.PNG", Png(9)},
                          {"x/22.06.txt", "six"},
                          {"x/22.06.cond.png", Png(3)},
                          {"a.png", Png(10)},
                          {"a.txt", "a"},
                          {"a.mask.png", Png(8)},
                          {"a.mask.json", "{}"},
                          {"v1.cls", "5"},
                          {"v1.5.webp", Png(11)},
                          {"v1.5.caption", "v"}}));
  const auto dataset = TarDataset::Open(folder_ + "/a.tar");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ASSERT_EQ((*dataset)->size(), 4);
  const char* const captions[] = {"five", "six", "a", "v"};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ((*dataset)->LoadCaptions(i)->front(), captions[i]);
    EXPECT_EQ((*dataset)->LoadImage(i)->width, 8 + i);
  }
  EXPECT_EQ((*dataset)->image_path(0), folder_ + "/a.tar: x/22.05.png");
  EXPECT_EQ((*dataset)->LoadCondition(1)->width, 3);
  EXPECT_FALSE((*dataset)->has_condition(0));
  EXPECT_THAT((*dataset)->notes(),
              testing::ElementsAre(HasSubstr("2 members with several dots in the name ignored "
                                             "beside members of the same key (WebDataset's "
                                             "rule): a.mask.png, a.mask.json")));
}

TEST_F(TarDatasetTest, JoinedArchivesHaveTheirOwnKeys) {
  const std::string one = MakeTar({{"0.png", Png(8)}, {"0.txt", "one"}});
  const std::string two = MakeTar({{"0.png", Png(9)}, {"0.txt", "two"}});
  Write("a.tar", one + two);
  const auto dataset = TarDataset::Open(folder_ + "/a.tar");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ASSERT_EQ((*dataset)->size(), 2);
  EXPECT_EQ((*dataset)->LoadCaptions(1)->front(), "two");
  EXPECT_EQ((*dataset)->LoadImage(1)->width, 9);
  EXPECT_EQ((*dataset)->image_path(0), folder_ + "/a.tar: 0.png");
  EXPECT_EQ((*dataset)->image_path(1), folder_ + "/a.tar: 0.png (archive 2)");
  EXPECT_NE((*dataset)->LoadIdentity(0).value(), (*dataset)->LoadIdentity(1).value());
  EXPECT_THAT((*dataset)->notes(), testing::IsEmpty());
  Write("a.tar", one + "and a signature");
  EXPECT_THAT((*TarDataset::Open(folder_ + "/a.tar"))->notes(),
              testing::ElementsAre(HasSubstr("1 shard is not read completely, the first: " +
                                             folder_ + "/a.tar: 15 bytes from byte ")));
}

TEST_F(TarDatasetTest, LinksAreCounted) {
  Write("a.tar", TarEntry("1.png", "", '2') + TarEntry("1.txt", "", '1') +
                     MakeTar({{"0.png", Png(8)}, {"0.txt", "x"}}));
  EXPECT_THAT(
      (*TarDataset::Open(folder_ + "/a.tar"))->notes(),
      testing::ElementsAre("2 links not followed; tar --dereference packs the files instead"));
}

TEST_F(TarDatasetTest, AJsonMemberMayHaveSeveralCaptions) {
  Write("a.tar", MakeTar({{"0.png", Png(8)},
                          {"0.json", "{\"caption\": [\"one\", \"two\"], \"score\": NaN}"},
                          {"1.png", Png(8)},
                          {"1.json", "{\"caption\": \"one\", "},
                          {"2.png", Png(8)},
                          {"2.json", std::string(100'000, '[')}}));
  const auto dataset = TarDataset::Open(folder_ + "/a.tar");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_THAT((*dataset)->LoadCaptions(0).value(), testing::ElementsAre("one", "two"));
  EXPECT_THAT(std::string((*dataset)->LoadCaptions(1).status().message()),
              HasSubstr("/a.tar: 1.json: line 1, column "));
  EXPECT_THAT(std::string((*dataset)->LoadCaptions(2).status().message()),
              HasSubstr("/a.tar: 2.json: line 1, column 101: more than 100 nested"));
}

TEST_F(TarDatasetTest, FindingsOfLoadingAreCounted) {
  Write("a.tar", MakeTar({{"0.png", ReadFile("data/testdata/alpha.png").value()},
                          {"0.txt", "x"},
                          {"1.png", Png(8)},
                          {"1.txt", "caf\xe9"}}));
  const auto dataset = TarDataset::Open(folder_ + "/a.tar");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_THAT((*dataset)->findings(), testing::IsEmpty());
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE((*dataset)->LoadImage(i).ok());
    EXPECT_TRUE((*dataset)->LoadCaptions(i).ok());
  }
  EXPECT_THAT((*dataset)->findings(),
              testing::ElementsAre(HasSubstr("1 image has transparent pixels, composited on "
                                             "white: a.tar: 0.png"),
                                   HasSubstr("1 caption is not UTF-8")));
}

TEST_F(TarDatasetTest, OpenSamplesNamesIgnoredImagesBesideShards) {
  Write("a.png", Png(8));
  Write("a.txt", "x");
  Write("0.tar", MakeTar({{"0.png", Png(8)}, {"0.txt", "tar"}}));
  EXPECT_THAT(
      (*OpenSamples(folder_))->notes(),
      testing::ElementsAre("only the .tar files are read; ignored: 1 image beside them: a.png"));
  EXPECT_THAT((*OpenSamples(folder_ + "/0.tar"))->notes(), testing::IsEmpty());
}

TEST_F(TarDatasetTest, OpenSamplesKnowsTheKinds) {
  EXPECT_FALSE(OpenSamples(folder_).ok());
  Write("0.tar", MakeTar({{"0.png", Png(8)}, {"0.txt", "tar"}}));
  EXPECT_EQ((*OpenSamples(folder_))->LoadCaptions(0)->front(), "tar");
  Write("m.png", Png(8));
  Write("metadata.jsonl", "{\"file_name\": \"m.png\", \"text\": \"folder\"}");
  EXPECT_EQ((*OpenSamples(folder_))->LoadCaptions(0)->front(), "folder");
}

// Training sees the same samples from shards as from the folder that they were packed from.
TEST_F(TarDatasetTest, LoadsAsAFolderDoes) {
  std::vector<std::pair<std::string, std::string>> shards[2];
  for (int i = 0; i < 10; ++i) {
    Image image(12, 10);
    for (size_t b = 0; b < image.pixels.size(); ++b) image.pixels[b] = static_cast<uint8_t>(b * i);
    std::string png = EncodePng(image).value();
    if (i == 3) png.resize(50);
    const std::string caption = absl::StrCat("caption ", i);
    Write(absl::StrCat(i, ".png"), png);
    Write(absl::StrCat(i, ".txt"), caption);
    shards[i / 6].push_back({absl::StrCat(i, ".png"), png});
    shards[i / 6].push_back({absl::StrCat(i, ".txt"), caption});
  }
  Write("t-0.tar", MakeTar(shards[0]));
  Write("t-1.tar", MakeTar(shards[1]));
  DataLoaderOptions options;
  options.image_size = 8;
  options.global_batch = 5;
  options.random_crop = options.random_flip = true;
  const auto folder = DataLoader::Create(FolderDataset::Open(folder_).value(), options);
  const auto tars = DataLoader::Create(TarDataset::Open(folder_ + "/t-*.tar").value(), options);
  ASSERT_TRUE(folder.ok() && tars.ok()) << folder.status() << tars.status();
  std::vector<float> a(5 * 8 * 8 * 3), b(a.size());
  for (int64_t step = 0; step < 6; ++step) {
    ASSERT_TRUE((*folder)->LoadPixels(step, {0, 5}, a.data()).ok());
    ASSERT_TRUE((*tars)->LoadPixels(step, {0, 5}, b.data()).ok());
    EXPECT_EQ(a, b);
    EXPECT_EQ((*folder)->Captions(step, {0, 5}).value(), (*tars)->Captions(step, {0, 5}).value());
  }
  EXPECT_EQ((*tars)->Quarantine().size(), 1u);
  EXPECT_THAT((*tars)->Quarantine()[0].reason, HasSubstr("t-0.tar: 3.png: corrupt PNG"));
}

TEST_F(TarDatasetTest, SamplesWithoutCaptionAreSkipped) {
  Write("a.tar", MakeTar({{"0.png", Png(8)}, {"1.png", Png(8)}, {"1.txt", "one"}}));
  DataLoaderOptions options;
  options.image_size = 8;
  options.global_batch = 2;
  const auto loader = DataLoader::Create(TarDataset::Open(folder_ + "/a.tar").value(), options);
  ASSERT_TRUE(loader.ok()) << loader.status();
  EXPECT_EQ((*loader)->Indices(0, {0, 2}).value(), (std::vector<int32_t>{1, 1}));
  EXPECT_THAT((*loader)->Quarantine()[0].reason, HasSubstr("0.png: no .txt, .caption or .json"));
}

TEST_F(TarDatasetTest, CaptionsMayBeOptional) {
  Write("a.tar", MakeTar({{"0.png", Png(8)},
                          {"1.png", Png(8)},
                          {"1.txt", "one"},
                          {"2.png", Png(8)},
                          {"2.json", "{\"caption\": null}"},
                          {"3.png", Png(8)},
                          {"3.json", "{\"caption\": 5}"}}));
  EXPECT_THAT(
      (*OpenSamples(folder_))->notes(),
      testing::ElementsAre(HasSubstr("1 of the 4 images have no .txt, .caption or .json and "
                                     "will be skipped: --data.default_caption=TEXT")));
  OpenSamplesOptions options;
  options.default_caption = "a sks";
  const auto dataset = OpenSamples(folder_ + "/a.tar", options);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->LoadCaptions(0)->front(), "a sks");
  EXPECT_EQ((*dataset)->LoadCaptions(1)->front(), "one");
  EXPECT_EQ((*dataset)->LoadCaptions(2)->front(), "a sks");
  EXPECT_FALSE((*dataset)->LoadCaptions(3).ok());
  EXPECT_THAT((*dataset)->notes(),
              testing::ElementsAre("1 of the 4 images have no .txt, .caption or .json and get the "
                                   "caption \"a sks\""));
}

TEST_F(TarDatasetTest, HiddenMembersAreLeftOut) {
  Write("a.tar",
        MakeTar({{"sub/._0.png", "AppleDouble"}, {"sub/0.png", Png(8)}, {"sub/0.txt", "x"}}));
  const auto dataset = OpenSamples(folder_);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->size(), 1);
  EXPECT_THAT((*dataset)->notes(),
              testing::ElementsAre(HasSubstr("1 members whose names begin with a dot")));
}

TEST_F(TarDatasetTest, FingerprintCoversTheIndex) {
  const auto fingerprint = [this](const std::string& shard, const std::string& caption) {
    const std::string path = absl::StrCat(folder_, "/", shard, "/a.tar");
    EXPECT_TRUE(MakeFolder(absl::StrCat(folder_, "/", shard)).ok());
    EXPECT_TRUE(WriteFileAtomically(path, MakeTar({{"0.png", Png(8)}, {"0.txt", caption}})).ok());
    return (*OpenSamples(path))->fingerprint();
  };
  EXPECT_EQ(fingerprint("one", "a cat"), fingerprint("two", "a cat"));
  EXPECT_NE(fingerprint("one", "a cat"), fingerprint("two", "a tiger"));
}

TEST_F(TarDatasetTest, OpenSamplesKnowsCompressedShards) {
  Write("a.tar.gz", "\x1f\x8b and so on");
  EXPECT_THAT(std::string(OpenSamples(folder_ + "/a.tar.gz").status().message()),
              HasSubstr("/a.tar.gz: compressed by gzip"));
  EXPECT_THAT(std::string(OpenSamples(folder_ + "/no.tar.gz").status().message()),
              HasSubstr("/no.tar.gz: no such file"));
}

TEST_F(TarDatasetTest, OpenSamplesReadsACsvBesideShards) {
  Write("0.tar", MakeTar({{"0.png", Png(8)}, {"0.txt", "tar"}}));
  Write("m.png", Png(8));
  Write("metadata.csv", "file_name,text\nm.png,folder\n");
  EXPECT_EQ((*OpenSamples(folder_))->LoadCaptions(0)->front(), "folder");
}

}  // namespace
}  // namespace dpipe
