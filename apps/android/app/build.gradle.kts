plugins {
    id("com.android.application")
}

android {
    namespace = "org.reprise.sample"
    compileSdk = 35
    ndkVersion = "27.2.12479018"

    defaultConfig {
        applicationId = "org.reprise.sample"
        minSdk = 26
        targetSdk = 35
        versionCode = 1
        versionName = "1.0"
        ndk { abiFilters += "arm64-v8a" }
        externalNativeBuild {
            cmake {
                // The libraries that tools/cross android has made.
                val prefix = providers.gradleProperty("repriseCrossPrefix")
                    .getOrElse("${rootDir}/../../.cache/cross/android")
                arguments += listOf("-DANDROID_STL=c++_static", "-DREPRISE_CROSS_PREFIX=$prefix")
            }
        }
    }
    externalNativeBuild {
        cmake { path = file("src/main/cpp/CMakeLists.txt") }
    }
    // A package is read in place, which needs it stored as it is.
    androidResources { noCompress += "rpk" }
    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_11
        targetCompatibility = JavaVersion.VERSION_11
    }
}
