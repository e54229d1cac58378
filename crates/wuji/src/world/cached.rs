//! Data of libraries in the kernel cache.

use super::World;

impl World {
    /// Looks up data that [`World::cache_data`] stored in the [kernel cache](World::cache), in this process or an earlier one. The key
    /// has everything that affects the data.
    ///
    /// An entry that is damaged, or that `decode` refuses, counts as absent, and the log says why.
    ///
    /// ```
    /// # use wuji::prelude::*;
    /// # fn main() -> wuji::Result<()> {
    /// # let folder = std::env::temp_dir().join(format!("wuji-cached-data-{}", std::process::id()));
    /// let world = World::builder().cache(wuji::CacheChoice::Folder(folder.clone())).build()?;
    /// let decode = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|e| e.to_string());
    /// assert_eq!(world.cached_data("mesh 7", decode), None);
    /// world.cache_data("mesh 7", || b"colors".to_vec());
    /// assert_eq!(world.cached_data("mesh 7", decode).as_deref(), Some("colors"));
    /// # std::fs::remove_dir_all(folder).map_err(|e| wuji::Error::new("W0512", e.to_string()))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn cached_data<T>(
        &self,
        key: &str,
        decode: impl FnOnce(&[u8]) -> Result<T, String>,
    ) -> Option<T> {
        self.cache()?.get_data(key, decode, self.inner.device.log())
    }

    /// Stores data in the [kernel cache](World::cache), for [`World::cached_data`]. Without a cache, `encode` is not called. A failure
    /// is logged: it only costs the next program time.
    pub fn cache_data(&self, key: &str, encode: impl FnOnce() -> Vec<u8>) {
        if let Some(cache) = self.cache() {
            cache.put_data(key, &encode(), self.inner.device.log());
        }
    }
}
