//! What a cluster has used, as CloudWatch counts it.
//!
//! The figure comes minutes after the load and is what is billed; the limits of
//! a run hold by the plan's own estimate before it comes.

use std::time::SystemTime;

use aws_sdk_cloudwatch::primitives::DateTime;
use aws_sdk_cloudwatch::types::{Dimension, Metric, MetricDataQuery, MetricStat};
use clock::Clock;
use fleet::StoreError;

use crate::clients::Clients;
use crate::errors::Call;

/// CloudWatch keeps one value a minute for 15 days.
const PERIOD_S: i32 = 60;

/// AWS's pages name the dimension in two ways (billing `ClusterId`, monitoring
/// `ResourceId`). Both are asked for; the one that has values is it.
const DIMENSIONS: [&str; 2] = ["ClusterId", "ResourceId"];

/// The id and the region in a cluster's host name, `ID.dsql.REGION.on.aws`.
fn cluster_of(host: &str) -> Option<(&str, &str)> {
    let host = host.split(':').next()?;
    let parts: Vec<&str> = host.split('.').collect();
    match parts.as_slice() {
        [id, service, region, "on", "aws"] if service.starts_with("dsql") => Some((id, region)),
        _ => None,
    }
}

/// DPU of the cluster at `host` since an instant; `None` where nobody counts
/// them: at another address, or before CloudWatch has the first value.
pub(crate) async fn since(
    clients: &Clients,
    host: &str,
    since_ms: i64,
    clock: Clock,
) -> Result<Option<f64>, StoreError> {
    let Some((id, region)) = cluster_of(host) else {
        return Ok(None);
    };
    let call = Call {
        action: "cloudwatch:GetMetricData",
        kind: "cluster",
        name: id,
        region,
    };
    let client = clients.cloudwatch(region).await;
    let since_1970 = clock.wall().duration_since(SystemTime::UNIX_EPOCH);
    let now_ms = since_1970.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(0));
    let mut totals = [None::<f64>; DIMENSIONS.len()];
    let mut token: Option<String> = None;
    loop {
        let page = client
            .get_metric_data()
            .start_time(DateTime::from_millis(since_ms))
            .end_time(DateTime::from_millis(now_ms))
            .set_metric_data_queries(Some(queries(id)))
            .set_next_token(token)
            .send()
            .await
            .map_err(|error| call.failed(&error))?;
        for result in page.metric_data_results() {
            let place = result.id().and_then(|id| id.strip_prefix('q'));
            let place = place.and_then(|place| place.parse::<usize>().ok());
            let values = result.values();
            if let Some(total) = place.and_then(|place| totals.get_mut(place))
                && !values.is_empty()
            {
                *total = Some(total.unwrap_or(0.0) + values.iter().sum::<f64>());
            }
        }
        token = page.next_token;
        if token.is_none() {
            return Ok(totals.into_iter().flatten().reduce(f64::max));
        }
    }
}

fn queries(id: &str) -> Vec<MetricDataQuery> {
    let query = |(place, name): (usize, &&str)| {
        let metric = Metric::builder()
            .namespace("AWS/AuroraDSQL")
            .metric_name("TotalDPU")
            .dimensions(Dimension::builder().name(*name).value(id).build());
        let stat = MetricStat::builder()
            .metric(metric.build())
            .period(PERIOD_S)
            .stat("Sum");
        MetricDataQuery::builder()
            .id(format!("q{place}"))
            .metric_stat(stat.build())
            .build()
    };
    DIMENSIONS.iter().enumerate().map(query).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_known_by_its_host() {
        let known = Some(("abc", "us-east-2"));
        assert_eq!(cluster_of("abc.dsql.us-east-2.on.aws"), known);
        assert_eq!(cluster_of("abc.dsql.us-east-2.on.aws:5432"), known);
        assert_eq!(cluster_of("abc.dsql-fnh4.us-east-2.on.aws"), known);
        for other in ["localhost", "db.example.com:5432", ""] {
            assert_eq!(cluster_of(other), None, "{other}");
        }
    }
}
