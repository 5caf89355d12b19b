#include "data/tar_dataset.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/scratch_folder.h"
#include "data/image_encode.h"
#include "data/loader.h"
#include "data/open_samples.h"
#include "data/tar_for_test.h"
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
  EXPECT_EQ((*dataset)->LoadCaption(0).value(), "a cat");
  EXPECT_EQ((*dataset)->LoadCaption(1).value(), "a dog");
  EXPECT_EQ((*dataset)->LoadCaption(2).value(), "a fox");
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
  EXPECT_EQ((*OpenSamples(folder_ + "/a.tar"))->LoadCaption(0).value(), "one");
  options.caption_column = "fr";
  EXPECT_EQ((*OpenSamples(folder_ + "/a.tar", options))->LoadCaption(0).value(), "un");
  options.caption_column = "de";
  EXPECT_THAT(std::string((*OpenSamples(folder_, options))->LoadCaption(0).status().message()),
              HasSubstr("a.tar: 0.json: no caption \"de\", which must be a string; it has "
                        "\"text\", \"fr\": name the caption's with --data.caption_column"));
}

TEST_F(TarDatasetTest, CaptionsAreCleanedAndNamedAsTheyAre) {
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
  EXPECT_EQ((*dataset)->LoadCaption(0).value(), "caf\ufffd");
  EXPECT_EQ((*dataset)->LoadCaption(1).value(), "a cat");
  EXPECT_THAT(std::string((*dataset)->LoadCaption(2).status().message()),
              HasSubstr("/a.tar: 2.json: not UTF-8: byte 17 is 0xe9"));
  EXPECT_THAT(std::string((*dataset)->LoadCaption(3).status().message()),
              HasSubstr("/a.tar: 3.caption: 1048577 bytes"));
}

TEST_F(TarDatasetTest, DamagedShardsAreNamed) {
  const std::string good = MakeTar({{"0.png", Png(8)}, {"0.txt", "x"}});
  EXPECT_EQ(ErrorOf(good), "no error");
  EXPECT_THAT(ErrorOf(good.substr(0, 700)), HasSubstr("/bad.tar: at byte "));
  EXPECT_THAT(ErrorOf(MakeTar({{"0.png", Png(8)}, {"1.png", Png(8)}, {"0.jpg", "x"}})),
              HasSubstr("/bad.tar: 0.jpg: 0 has its image twice, as .png and .jpg"));
  EXPECT_THAT(ErrorOf(MakeTar({{"0.txt", "x"}})), HasSubstr("no JPEG, PNG or WebP in 1 tar"));
  EXPECT_EQ(TarDataset::Open(folder_ + "/no.tar").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(TarDatasetTest, OpenSamplesKnowsTheKinds) {
  EXPECT_FALSE(OpenSamples(folder_).ok());
  Write("0.tar", MakeTar({{"0.png", Png(8)}, {"0.txt", "tar"}}));
  EXPECT_EQ((*OpenSamples(folder_))->LoadCaption(0).value(), "tar");
  Write("m.png", Png(8));
  Write("metadata.jsonl", "{\"file_name\": \"m.png\", \"text\": \"folder\"}");
  EXPECT_EQ((*OpenSamples(folder_))->LoadCaption(0).value(), "folder");
}

// Training sees the same from shards as from the folder that they were packed from.
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
  EXPECT_EQ((*dataset)->LoadCaption(0).value(), "a sks");
  EXPECT_EQ((*dataset)->LoadCaption(1).value(), "one");
  EXPECT_EQ((*dataset)->LoadCaption(2).value(), "a sks");
  EXPECT_FALSE((*dataset)->LoadCaption(3).ok());
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

TEST_F(TarDatasetTest, FingerprintIsOfTheIndex) {
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
  EXPECT_EQ((*OpenSamples(folder_))->LoadCaption(0).value(), "folder");
}

}  // namespace
}  // namespace dpipe
