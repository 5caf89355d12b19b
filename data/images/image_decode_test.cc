#include "data/images/image_decode.h"

#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/philox.h"
#include "data/images/image_encode.h"
#include "data/scenes/scene.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using testing::HasSubstr;

constexpr const char* kFiles[] = {"lossy.webp",       "lossless.webp",     "alpha.webp",
                                  "baseline.jpg",     "progressive.jpg",   "grey.jpg",
                                  "cmyk.jpg",         "grey.png",          "one_bit.png",
                                  "palette.png",      "alpha.png",         "color.png",
                                  "interlaced.png",   "sixteen_bit.png",   "turned_2.jpg",
                                  "grey_alpha.png",   "palette_alpha.png", "interlaced_alpha.png",
                                  "turned_alpha.png", "turned_3.jpg",      "turned_4.jpg",
                                  "turned_5.jpg",     "turned_6.jpg",      "turned_7.jpg",
                                  "turned_8.jpg",     "turned_6.png",      "turned_8.webp"};

std::string TestFile(const std::string& name) { return absl::StrCat("data/testdata/", name); }

std::string BytesOf(const std::string& name) { return ReadFile(TestFile(name)).value(); }

int LargestDifference(const Image& a, const Image& b) {
  EXPECT_EQ(a.width, b.width);
  EXPECT_EQ(a.height, b.height);
  int largest = 0;
  for (size_t i = 0; i < std::min(a.pixels.size(), b.pixels.size()); ++i) {
    largest = std::max(largest, std::abs(a.pixels[i] - b.pixels[i]));
  }
  return largest;
}

TEST(ImageDecodeTest, PngRoundTripsExactly) {
  const Image image = RenderScene(DrawScene(1, 5), 48);
  const auto bytes = EncodePng(image);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const auto decoded = DecodeImage(*bytes, "scene");
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->pixels, image.pixels);
}

TEST(ImageDecodeTest, JpegRoundTripsNearly) {
  const Image image = RenderScene(DrawScene(1, 5), 48);
  const auto decoded = DecodeImage(*EncodeJpeg(image, 95), "scene");
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  double sum = 0;
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    sum += std::abs(image.pixels[i] - decoded->pixels[i]);
  }
  EXPECT_LT(sum / image.pixels.size(), 3.0);
  EXPECT_GT(sum, 0.0);
}

// Compared with PIL's decoding of the same files, on white. Lossy decoders may round differently.
TEST(ImageDecodeTest, ReadsWhatPilReads) {
  for (const std::string name : kFiles) {
    if (name == "color.png") continue;
    const auto image = ReadImage(TestFile(name));
    ASSERT_TRUE(image.ok()) << image.status();
    std::string expected_name = absl::StrCat("expected_", name, ".png");
    expected_name[expected_name.find('.')] = '_';
    const auto expected = ReadImage(TestFile(expected_name));
    ASSERT_TRUE(expected.ok()) << expected.status();
    const bool lossy = name == "cmyk.jpg" || name == "lossy.webp";
    EXPECT_LE(LargestDifference(*image, *expected), lossy ? 2 : 1) << name;
  }
}

TEST(ImageDecodeTest, ReportsTransparentPixels) {
  for (const std::string name : kFiles) {
    const bool expected = name.find("alpha") != std::string::npos;
    EXPECT_EQ(ReadImage(TestFile(name))->had_transparency, expected) << name;
  }
  // Magenta under full transparency, then opaque magenta that still has an alpha channel.
  std::string png = BytesOf("transparent_magenta.png");
  const Image transparent = DecodeImage(png, "magenta").value();
  EXPECT_TRUE(transparent.had_transparency);
  EXPECT_THAT(transparent.pixels, testing::Each(255));
  const Image opaque = ReadImage(TestFile("opaque_magenta.png")).value();
  EXPECT_FALSE(opaque.had_transparency);
  EXPECT_EQ(std::vector<uint8_t>(opaque.pixels.begin(), opaque.pixels.begin() + 3),
            (std::vector<uint8_t>{255, 0, 255}));
}

TEST(ImageDecodeTest, RotatedImagesKeepTheirTransparency) {
  const Image image = ReadImage(TestFile("turned_alpha.png")).value();
  EXPECT_EQ(image.width, 29);
  EXPECT_TRUE(image.had_transparency);
}

TEST(ImageDecodeTest, SizesAreThoseOfTheDecodedImages) {
  for (const std::string name : kFiles) {
    const Image image = ReadImage(TestFile(name)).value();
    const std::string bytes = BytesOf(name);
    const auto size = DecodeImageSize(bytes, name);
    ASSERT_TRUE(size.ok()) << size.status();
    EXPECT_EQ(size->width, image.width) << name;
    EXPECT_EQ(size->height, image.height) << name;
    const auto read = ReadImageSize(TestFile(name), 0, bytes.size(), name);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->width, image.width) << name;
    // Without the pixels. Not for WebP, whose EXIF data comes after them.
    if (name.find(".webp") != std::string::npos) continue;
    const size_t pixels = bytes.find(name.find(".png") != std::string::npos ? "IDAT" : "\xff\xda");
    const auto headers = DecodeImageSize(bytes.substr(0, pixels + 40), name);
    ASSERT_TRUE(headers.ok()) << headers.status();
    EXPECT_EQ(headers->height, image.height) << name;
  }
}

// A file whose headers are longer than the first read.
TEST(ImageDecodeTest, SizesBehindLargeHeadersAreFound) {
  std::string bytes = BytesOf("baseline.jpg");
  const std::string comment = std::string("\xff\xfe\xff\xff", 4) + std::string(0xfffd, 'x');
  for (int i = 0; i < 4; ++i) bytes.insert(2, comment);
  const std::string path = testing::TempDir() + "/large.jpg";
  ASSERT_TRUE(WriteFileAtomically(path, "12345" + bytes).ok());
  const auto size = ReadImageSize(path, 5, bytes.size(), "large");
  ASSERT_TRUE(size.ok()) << size.status();
  EXPECT_EQ(size->width, 37);
  EXPECT_FALSE(ReadImageSize(path, 6, bytes.size(), "large").ok());
}

// Bytes beyond the first 8 KiB are not available.
TEST(ImageDecodeTest, SizesNeedTheFirstBytesAlone) {
  const std::string path = testing::TempDir() + "/first_bytes";
  for (const std::string name : {"baseline.jpg", "turned_6.jpg", "lossy.webp", "alpha.webp",
                                 "lossless.webp", "color.png", "turned_6.png"}) {
    const std::string bytes = BytesOf(name);
    ASSERT_LT(bytes.size(), 8192u) << name;
    ASSERT_TRUE(WriteFileAtomically(path, bytes + std::string(8192 - bytes.size(), 'x')).ok());
    const auto size = ReadImageSize(path, 0, /*size=*/1 << 20, name);
    ASSERT_TRUE(size.ok()) << size.status();
    const Image image = ReadImage(TestFile(name)).value();
    EXPECT_EQ(size->width, image.width) << name;
    EXPECT_EQ(size->height, image.height) << name;
  }
}

TEST(ImageDecodeTest, ExifAtTheEndOfAWebpIsFound) {
  std::string bytes = BytesOf("turned_8.webp");
  const Image image = DecodeImage(bytes, "turned").value();
  ASSERT_NE(image.width, image.height);
  const std::string other_chunk = std::string("JUNK\x00\x80\x00\x00", 8) + std::string(0x8000, 'x');
  bytes.insert(bytes.find("EXIF"), other_chunk);
  const std::string path = testing::TempDir() + "/exif.webp";
  ASSERT_TRUE(WriteFileAtomically(path, bytes).ok());
  EXPECT_EQ(ReadImageSize(path, 0, bytes.size(), "turned")->width, image.width);
  // If the headers do not announce it, it is ignored.
  bytes[20] = 0;
  ASSERT_TRUE(WriteFileAtomically(path, bytes).ok());
  EXPECT_EQ(ReadImageSize(path, 0, bytes.size(), "upright")->width, image.height);
  EXPECT_EQ(DecodeImage(bytes, "upright")->width, image.height);
}

TEST(ImageDecodeTest, DecodesTheFirstFrameOfAnAnimation) {
  const std::string bytes = BytesOf("animated.webp");
  const auto image = DecodeImage(bytes, "animated");
  ASSERT_TRUE(image.ok()) << image.status();
  const Image first = ReadImage(TestFile("color.png")).value();
  EXPECT_EQ(image->pixels, first.pixels);
  EXPECT_EQ(DecodeImageSize(bytes, "animated")->width, first.width);
  EXPECT_EQ(DecodeImageSize(bytes, "animated")->height, first.height);
  EXPECT_THAT(std::string(DecodeImage(bytes.substr(0, 400), "cut.webp").status().message()),
              HasSubstr("cut.webp: corrupt WebP: "));
  DecodeLimits limits;
  limits.max_side = first.width - 1;
  EXPECT_THAT(std::string(DecodeImage(bytes, "animated", limits).status().message()),
              HasSubstr("more than the limit of"));
}

// A frame that is smaller than the animation's canvas.
TEST(ImageDecodeTest, FrameMayCoverPartOfThePicture) {
  std::string bytes = BytesOf("animated.webp");
  const Image first = ReadImage(TestFile("color.png")).value();
  // The canvas's width and height minus 1, in 24 bits each; and the frame's position, in units of
  // 2.
  const size_t canvas = bytes.find("VP8X") + 12, frame = bytes.find("ANMF") + 8;
  bytes[canvas] = static_cast<char>(bytes[canvas] + 10);
  bytes[canvas + 3] = static_cast<char>(bytes[canvas + 3] + 10);
  bytes[frame] = 3;
  bytes[frame + 3] = 2;
  const auto image = DecodeImage(bytes, "animated");
  ASSERT_TRUE(image.ok()) << image.status();
  ASSERT_EQ(image->width, first.width + 10);
  ASSERT_EQ(image->height, first.height + 10);
  for (int y = 0; y < image->height; ++y) {
    for (int x = 0; x < image->width; ++x) {
      const bool covered = x >= 6 && y >= 4 && x < 6 + first.width && y < 4 + first.height;
      for (int c = 0; c < 3; ++c) {
        ASSERT_EQ(image->At(x, y)[c], covered ? first.At(x - 6, y - 4)[c] : 255) << x << " " << y;
      }
    }
  }
  EXPECT_TRUE(image->had_transparency);
  bytes[frame] = 6;  // past the canvas
  EXPECT_FALSE(DecodeImage(bytes, "animated").ok());
}

// JPEGs that exceed the limits are decoded at half the size, a quarter or an eighth.
TEST(ImageDecodeTest, LargeJpegsAreDecodedSmaller) {
  Image image(90, 40);
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) image.At(x, y)[1] = static_cast<uint8_t>(2 * x + y);
  }
  const std::string bytes = EncodeJpeg(image).value();
  const auto decode = [&](const DecodeLimits& limits) {
    const auto decoded = DecodeImage(bytes, "large.jpg", limits);
    const auto size = DecodeImageSize(bytes, "large.jpg", limits);
    EXPECT_EQ(decoded.status().code(), size.status().code());
    if (decoded.ok()) {
      EXPECT_EQ(decoded->width, size->width);
    }
    return decoded;
  };
  DecodeLimits limits;
  limits.max_pixels = 3600;
  EXPECT_EQ(decode(limits)->width, 90);
  limits.max_pixels = 3599;
  const auto half = decode(limits);
  ASSERT_TRUE(half.ok()) << half.status();
  ASSERT_EQ(half->width, 45);
  ASSERT_EQ(half->height, 20);
  for (const int x : {5, 20, 40}) EXPECT_NEAR(half->At(x, 10)[1], 2 * 2 * x + 1 + 20, 4) << x;
  limits.max_side = 12;
  EXPECT_EQ(decode(limits)->width, 12);  // an eighth
  limits.max_side = 11;
  EXPECT_THAT(decode(limits).status().ToString(),
              HasSubstr("large.jpg: 90 x 40 pixels, more than"));
  limits.max_side = 12;
  limits.max_stored_pixels = 3599;
  EXPECT_THAT(std::string(decode(limits).status().message()), HasSubstr("more than the limit of"));
  // If there are several scans, all pixels would have to be kept.
  limits = {};
  limits.max_pixels = 1000;
  EXPECT_THAT(std::string(ReadImage(TestFile("progressive.jpg"), limits).status().message()),
              HasSubstr("more than the limit of"));
  EXPECT_TRUE(ReadImage(TestFile("baseline.jpg"), limits).ok());
}

TEST(ImageDecodeTest, ErrorsNameTheFile) {
  EXPECT_EQ(ReadImage("/no/such.png").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(DecodeImage("", "cat.png").status().message()),
              HasSubstr("cat.png: an empty file: its content is missing"));
  EXPECT_THAT(std::string(DecodeImage("\xff\xd8\xff", "cat.jpg").status().message()),
              HasSubstr("cat.jpg: corrupt JPEG: "));
  EXPECT_THAT(std::string(DecodeImage("\x89PNG\r\n\x1a\n", "cat.png").status().message()),
              HasSubstr("cat.png: corrupt PNG: the file is truncated"));
}

TEST(ImageDecodeTest, OtherFormatsAreNamed) {
  const std::string avif(
      "\0\0\0\x20"
      "ftypavif\0\0\0\0avifmif1miafMA1B",
      32);
  const std::pair<std::string, const char*> cases[] = {
      {"GIF89a", "x.jpg: a GIF image, not a JPEG, PNG or WebP image; convert it, or leave it out"},
      {avif, "x.jpg: an AVIF image, not a JPEG,"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n",
       "x.jpg: a Git LFS pointer: the file itself was not downloaded; run git lfs pull"},
      {"<!DOCTYPE html><html>", "x.jpg: an HTML page: a web page was downloaded instead"}};
  for (const auto& [bytes, expected] : cases) {
    EXPECT_THAT(std::string(DecodeImage(bytes, "x.jpg").status().message()), HasSubstr(expected));
    const std::string path = testing::TempDir() + "/x.jpg";
    ASSERT_TRUE(WriteFileAtomically(path, bytes).ok());
    EXPECT_THAT(std::string(ReadImageSize(path, 0, bytes.size(), "x.jpg").status().message()),
                HasSubstr(expected));
  }
}

TEST(ImageDecodeTest, TruncatedFilesAreErrors) {
  for (const char* name : kFiles) {
    const std::string bytes = BytesOf(name);
    for (const double share : {0.0, 0.1, 0.5, 0.9}) {
      const auto image = DecodeImage(bytes.substr(0, bytes.size() * share), name);
      EXPECT_FALSE(image.ok()) << name << " at " << share;
    }
  }
}

TEST(ImageDecodeTest, LimitsComeBeforeAllocation) {
  // A PNG header of 60,000 x 60,000 pixels (10.8 GB) with a correct checksum.
  const std::string huge_png("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\xea\x60\0\0\xea\x60\x08\x02\0\0\0",
                             29);
  const std::string with_checksum = huge_png + std::string("\x0f\xb0\xe2\x15", 4) +
                                    std::string("\0\0\0\x01IDAT\x78\xd9\xf3\x16\xf0", 13);
  EXPECT_THAT(std::string(DecodeImage(with_checksum, "huge.png").status().message()),
              HasSubstr("more than the limit of"))
      << DecodeImage(with_checksum, "huge.png").status();
  // A JPEG whose frame header says 65,500 x 65,500.
  std::string huge_jpeg = BytesOf("baseline.jpg");
  const size_t frame = huge_jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  huge_jpeg.replace(frame + 5, 4, "\xff\xdc\xff\xdc");
  const absl::Status status = DecodeImage(huge_jpeg, "huge.jpg").status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("huge.jpg: 65500 x 65500 pixels, more than the limit of"));

  DecodeLimits limits;
  limits.max_side = 36;  // the pictures are 37 wide
  limits.max_stored_pixels = 0;
  for (const char* name : kFiles) {
    EXPECT_THAT(std::string(DecodeImage(BytesOf(name), name, limits).status().message()),
                HasSubstr("more than the limit of"))
        << name;
  }
  limits = {};
  limits.max_file_bytes = 100;
  EXPECT_THAT(std::string(DecodeImage(BytesOf("color.png"), "x", limits).status().message()),
              HasSubstr("more than the limit of"));
}

TEST(ImageDecodeTest, FlippedBytesDoNoHarm) {
  DecodeLimits limits;
  limits.max_pixels = 40000;
  int num_errors = 0, num_trials = 0;
  for (const char* name : kFiles) {
    const std::string bytes = BytesOf(name);
    for (int trial = 0; trial < 300; ++trial, ++num_trials) {
      RandomStream random(31, trial, 0, RandomPurpose::kTest);
      std::string damaged = bytes;
      for (int flips = 1 + random.NextBelow(4); flips > 0; --flips) {
        // Half of the damage goes into headers.
        const size_t range = random.NextBelow(2) == 0 ? damaged.size() : 64;
        damaged[random.NextBelow(range)] = static_cast<char>(random.NextUint32());
      }
      if (trial % 5 == 0) damaged.resize(random.NextBelow(damaged.size()));
      const auto image = DecodeImage(damaged, name, limits);
      num_errors += !image.ok();
      if (!image.ok()) continue;
      EXPECT_LE(int64_t{image->width} * image->height, limits.max_pixels);
      EXPECT_EQ(image->pixels.size(), size_t{3} * image->width * image->height);
    }
  }
  EXPECT_GT(num_errors, num_trials / 4);
}

}  // namespace
}  // namespace dpipe
